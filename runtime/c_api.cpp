#include <cinttypes>
#include <cstdio>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/version.hpp"
#include "runtime/include/dgap/runtime.h"
#include "runtime/restorer.hpp"
#include "runtime/row_io.hpp"
#include "schemas/bundle/bundle.hpp"

struct dgap_bundle {
  dgap::schemas::Bundle contents;
  std::vector<const char*> names;  // of contents.precisions
};

struct dgap_context {
  dgap::runtime::Context impl;
};

struct dgap_controller {
  dgap::runtime::RateController initial, now;
};

struct dgap_restorer {
  dgap::runtime::Restorer impl;
};

namespace {

thread_local char last_error[2048] = "";

template <class... T>
dgap_status fail(dgap_status status, const char* format, T... values) {
  std::snprintf(last_error, sizeof last_error, format, values...);
  return status;
}

/// Runs `body`; an exception becomes a status and a message.
template <class Body>
dgap_status guarded(const Body& body) noexcept {
  try {
    body();
    return DGAP_OK;
  } catch (const dgap::schemas::UnsupportedBundleError& error) {
    return fail(DGAP_UNSUPPORTED, "%s", error.what());
  } catch (const dgap::base::UsageError& error) {
    return fail(DGAP_INVALID_ARGUMENT, "%s", error.what());
  } catch (const dgap::base::IoError& error) {
    return fail(DGAP_IO, "%s", error.what());
  } catch (const std::bad_alloc&) {
    return fail(DGAP_OUT_OF_MEMORY, "%s", "not enough memory");
  } catch (const std::exception& error) {
    return fail(DGAP_INTERNAL, "%s", error.what());
  } catch (...) {
    return fail(DGAP_INTERNAL, "%s", "unknown error");
  }
}

/// Rows of at least `width` numbers, which are called `name`.
dgap_status check_rows(const dgap_logits* view, std::int64_t width, const char* name) {
  if (view->rows < 0) return fail(DGAP_INVALID_ARGUMENT, "rows is %" PRId64, view->rows);
  if (view->rows > 0 && view->data == nullptr) {
    return fail(DGAP_INVALID_ARGUMENT, "%s", "data must not be NULL");
  }
  const auto size = static_cast<std::int64_t>(dgap::runtime::element_size(view->dtype));
  if (size == 0) {
    return fail(DGAP_INVALID_ARGUMENT, "dtype %" PRId32 " is none of dgap_dtype", view->dtype);
  }
  if (view->width < width) {
    return fail(DGAP_INVALID_ARGUMENT, "width is %" PRId64 "; the bundle's %s needs %" PRId64,
                view->width, name, width);
  }
  if (view->element_stride < size || (view->rows > 1 && view->row_stride < size)) {
    return fail(DGAP_INVALID_ARGUMENT,
                "element_stride is %" PRId64 " and row_stride %" PRId64
                " bytes; a number of this type has %" PRId64,
                view->element_stride, view->row_stride, size);
  }
  return DGAP_OK;
}

dgap_status check_view(const dgap_restorer* restorer, const dgap_logits* view,
                       const dgap_result* results) {
  if (restorer == nullptr || view == nullptr) {
    return fail(DGAP_INVALID_ARGUMENT, "%s", "restorer and logits must not be NULL");
  }
  const dgap_status status = check_rows(view, restorer->impl.vocab_size(), "vocabulary");
  if (status == DGAP_OK && view->rows > 0 && results == nullptr) {
    return fail(DGAP_INVALID_ARGUMENT, "%s", "results must not be NULL");
  }
  return status;
}

/// A hidden state for every row, where they are taken.
dgap_status check_hidden(const dgap_restorer* restorer, const dgap_logits* hidden,
                         std::int64_t rows) {
  if (hidden == nullptr) {
    return fail(DGAP_INVALID_ARGUMENT, "%s",
                "the corrector takes the hidden state of each row: call "
                "dgap_restorer_restore_with");
  }
  if (hidden->rows != rows) {
    return fail(DGAP_INVALID_ARGUMENT, "hidden has %" PRId64 " rows; logits have %" PRId64,
                hidden->rows, rows);
  }
  return check_rows(hidden, restorer->impl.hidden_size(), "hidden size");
}

dgap_status run(dgap_restorer* restorer, const dgap_logits* logits, bool edit,
                dgap_result* results) {
  const dgap_status status = check_view(restorer, logits, results);
  if (status == DGAP_OK) restorer->impl.run(*logits, edit, results);
  return status;
}

/// Every row has a context of the bundle's vocabulary.
dgap_status check_contexts(const dgap_restorer* restorer, const dgap_context* const* contexts,
                           std::int64_t rows) {
  if (rows > 0 && contexts == nullptr) {
    return fail(DGAP_INVALID_ARGUMENT, "%s", "contexts must not be NULL: the corrector takes them");
  }
  for (std::int64_t r = 0; r < rows; ++r) {
    if (contexts[r] == nullptr) {
      return fail(DGAP_INVALID_ARGUMENT, "contexts[%" PRId64 "] is NULL", r);
    }
    if (contexts[r]->impl.vocab_size() == restorer->impl.vocab_size()) continue;
    return fail(DGAP_INVALID_ARGUMENT,
                "contexts[%" PRId64 "] has a vocabulary of %" PRId64
                "; the restorer's has %" PRId64,
                r, contexts[r]->impl.vocab_size(), restorer->impl.vocab_size());
  }
  return DGAP_OK;
}

/// Calls `change` with the ids as a span.
template <class Change>
dgap_status change_context(dgap_context* context, const std::int32_t* ids, std::int64_t count,
                           const Change& change) {
  if (context == nullptr || count < 0 || (count > 0 && ids == nullptr)) {
    return fail(DGAP_INVALID_ARGUMENT, "%s",
                "context and ids must not be NULL, count not negative");
  }
  return guarded([&] { change(context->impl, std::span(ids, static_cast<std::size_t>(count))); });
}

}  // namespace

extern "C" {

const char* dgap_last_error(void) { return last_error; }

const char* dgap_runtime_version(void) {
  return dgap::base::version().data();  // a literal
}

dgap_status dgap_bundle_open(const char* directory, dgap_bundle** bundle) {
  if (directory == nullptr || bundle == nullptr) {
    return fail(DGAP_INVALID_ARGUMENT, "%s", "directory and bundle must not be NULL");
  }
  *bundle = nullptr;
  return guarded([&] {
    auto opened = std::make_unique<dgap_bundle>();
    opened->contents = dgap::schemas::read_bundle(directory);
    for (const auto& [name, entry] : opened->contents.precisions) {
      opened->names.push_back(name.c_str());
    }
    *bundle = opened.release();
  });
}

void dgap_bundle_close(dgap_bundle* bundle) { delete bundle; }

int32_t dgap_bundle_precision_count(const dgap_bundle* bundle) {
  return bundle == nullptr ? 0 : static_cast<int32_t>(bundle->names.size());
}

const char* dgap_bundle_precision_name(const dgap_bundle* bundle, int32_t index) {
  const bool inside = index >= 0 && index < dgap_bundle_precision_count(bundle);
  return inside ? bundle->names[static_cast<std::size_t>(index)] : nullptr;
}

int64_t dgap_bundle_vocab_size(const dgap_bundle* bundle) {
  return bundle == nullptr ? 0 : bundle->contents.base_model.vocab_size;
}

int64_t dgap_bundle_hidden_size(const dgap_bundle* bundle) {
  return bundle == nullptr ? 0 : bundle->contents.base_model.hidden_size;
}

const char* dgap_bundle_manifest(const dgap_bundle* bundle) {
  return bundle == nullptr ? nullptr : bundle->contents.manifest_json.c_str();
}

dgap_status dgap_restorer_create(const dgap_bundle* bundle, const char* precision,
                                 dgap_restorer** restorer) {
  if (bundle == nullptr || precision == nullptr || restorer == nullptr) {
    return fail(DGAP_INVALID_ARGUMENT, "%s", "bundle, precision and restorer must not be NULL");
  }
  *restorer = nullptr;
  return guarded(
      [&] { *restorer = new dgap_restorer{dgap::runtime::Restorer(bundle->contents, precision)}; });
}

void dgap_restorer_destroy(dgap_restorer* restorer) { delete restorer; }

dgap_status dgap_restorer_score(dgap_restorer* restorer, const dgap_logits* logits,
                                dgap_result* results) {
  return run(restorer, logits, false, results);
}

dgap_status dgap_restorer_restore(dgap_restorer* restorer, const dgap_logits* logits,
                                  dgap_result* results) {
  if (dgap_restorer_takes_context(restorer) != 0) {
    return fail(DGAP_INVALID_ARGUMENT, "%s",
                "the corrector takes the text before each row: call "
                "dgap_restorer_restore_in_context");
  }
  return dgap_restorer_restore_with(restorer, nullptr, nullptr, logits, results);
}

int32_t dgap_restorer_takes_context(const dgap_restorer* restorer) {
  return restorer != nullptr && restorer->impl.takes_context() ? 1 : 0;
}

int32_t dgap_restorer_takes_hidden(const dgap_restorer* restorer) {
  return restorer != nullptr && restorer->impl.takes_hidden() ? 1 : 0;
}

dgap_status dgap_restorer_restore_in_context(dgap_restorer* restorer,
                                             const dgap_context* const* contexts,
                                             const dgap_logits* logits, dgap_result* results) {
  return dgap_restorer_restore_with(restorer, contexts, nullptr, logits, results);
}

dgap_status dgap_restorer_restore_with(dgap_restorer* restorer, const dgap_context* const* contexts,
                                       const dgap_logits* hidden, const dgap_logits* logits,
                                       dgap_result* results) {
  dgap_status status = check_view(restorer, logits, results);
  if (status != DGAP_OK) return status;
  const bool in_context = restorer->impl.takes_context(), seen = restorer->impl.takes_hidden();
  if (in_context) status = check_contexts(restorer, contexts, logits->rows);
  if (status == DGAP_OK && seen) status = check_hidden(restorer, hidden, logits->rows);
  if (status != DGAP_OK) return status;
  for (int64_t r = 0; r < logits->rows; ++r) {
    dgap_logits row = *logits, state = seen ? *hidden : *logits;
    row.rows = 1;
    row.data = static_cast<std::byte*>(logits->data) + r * logits->row_stride;
    if (seen) state.data = static_cast<std::byte*>(hidden->data) + r * hidden->row_stride;
    restorer->impl.run(row, true, results + r, in_context ? &contexts[r]->impl : nullptr,
                       seen ? &state : nullptr);
  }
  return DGAP_OK;
}

dgap_status dgap_context_create(const dgap_bundle* bundle, int64_t capacity,
                                dgap_context** context) {
  if (bundle == nullptr || context == nullptr || capacity < 0) {
    return fail(DGAP_INVALID_ARGUMENT, "%s",
                "bundle and context must not be NULL, capacity not negative");
  }
  *context = nullptr;
  return guarded([&] {
    *context =
        new dgap_context{dgap::runtime::Context(bundle->contents.base_model.vocab_size, capacity)};
  });
}

void dgap_context_destroy(dgap_context* context) { delete context; }

dgap_status dgap_context_begin(dgap_context* context, const int32_t* ids, int64_t count) {
  return change_context(context, ids, count, [](auto& impl, auto text) { impl.begin(text); });
}

dgap_status dgap_context_accept(dgap_context* context, const int32_t* ids, int64_t count) {
  return change_context(context, ids, count, [](auto& impl, auto text) { impl.accept(text); });
}

dgap_status dgap_context_roll_back(dgap_context* context, int64_t count) {
  if (context == nullptr) return fail(DGAP_INVALID_ARGUMENT, "%s", "context must not be NULL");
  return guarded([&] { context->impl.roll_back(count); });
}

int64_t dgap_context_length(const dgap_context* context) {
  return context == nullptr ? 0 : context->impl.length();
}

dgap_status dgap_controller_create(const dgap_bundle* bundle, const char* precision,
                                   dgap_controller** controller) {
  if (bundle == nullptr || precision == nullptr || controller == nullptr) {
    return fail(DGAP_INVALID_ARGUMENT, "%s", "bundle, precision and controller must not be NULL");
  }
  *controller = nullptr;
  return guarded([&] {
    const auto& entry = dgap::runtime::entry_of(bundle->contents, precision);
    if (!entry.online || entry.mode != "threshold") {
      throw dgap::schemas::UnsupportedBundleError(
          std::string("the precision ") + precision +
          " has no online rate (threshold.online.rate), or no threshold that could follow it");
    }
    const dgap::runtime::RateController made(entry.tau, entry.online->rate, entry.online->step,
                                             entry.online->low, entry.online->high);
    *controller = new dgap_controller{made, made};
  });
}

void dgap_controller_destroy(dgap_controller* controller) { delete controller; }

void dgap_controller_reset(dgap_controller* controller) {
  if (controller != nullptr) controller->now = controller->initial;
}

double dgap_controller_tau(const dgap_controller* controller) {
  return controller == nullptr ? 0.0 : controller->now.tau();
}

dgap_status dgap_restorer_set_controller(dgap_restorer* restorer, dgap_controller* controller) {
  if (restorer == nullptr) return fail(DGAP_INVALID_ARGUMENT, "%s", "restorer must not be NULL");
  restorer->impl.set_controller(controller == nullptr ? nullptr : &controller->now);
  return DGAP_OK;
}

}  // extern "C"
