#include <cinttypes>
#include <cstdio>
#include <memory>
#include <new>
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

dgap_status check_view(const dgap_restorer* restorer, const dgap_logits* view,
                       const dgap_result* results) {
  if (restorer == nullptr || view == nullptr) {
    return fail(DGAP_INVALID_ARGUMENT, "%s", "restorer and logits must not be NULL");
  }
  if (view->rows < 0) return fail(DGAP_INVALID_ARGUMENT, "rows is %" PRId64, view->rows);
  if (view->rows > 0 && (view->data == nullptr || results == nullptr)) {
    return fail(DGAP_INVALID_ARGUMENT, "%s", "data and results must not be NULL");
  }
  const auto size = static_cast<std::int64_t>(dgap::runtime::element_size(view->dtype));
  if (size == 0) {
    return fail(DGAP_INVALID_ARGUMENT, "dtype %" PRId32 " is none of dgap_dtype", view->dtype);
  }
  if (view->width < restorer->impl.vocab_size()) {
    return fail(DGAP_INVALID_ARGUMENT,
                "width is %" PRId64 "; the bundle's vocabulary needs %" PRId64, view->width,
                restorer->impl.vocab_size());
  }
  if (view->element_stride < size || (view->rows > 1 && view->row_stride < size)) {
    return fail(DGAP_INVALID_ARGUMENT,
                "element_stride is %" PRId64 " and row_stride %" PRId64
                " bytes; a logit of this type has %" PRId64,
                view->element_stride, view->row_stride, size);
  }
  return DGAP_OK;
}

dgap_status run(dgap_restorer* restorer, const dgap_logits* logits, bool edit,
                dgap_result* results) {
  const dgap_status status = check_view(restorer, logits, results);
  if (status == DGAP_OK) restorer->impl.run(*logits, edit, results);
  return status;
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
  return run(restorer, logits, true, results);
}

}  // extern "C"
