#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "dgap/runtime.h"

/// C++20 over the C ABI, header-only. Handles are owned; failed calls throw RuntimeError.
///
///     dgap::Bundle bundle("bundle/");
///     dgap::Restorer restorer(bundle, "K1V1");      // one per thread
///     dgap_result result = restorer.restore(row);   // std::span<float>, corrected in place
namespace dgap {

/// A failed call: its status, and dgap_last_error() as the message.
class RuntimeError : public std::runtime_error {
 public:
  explicit RuntimeError(dgap_status status)
      : std::runtime_error(dgap_last_error()), status_(status) {}
  RuntimeError(dgap_status status, const std::string& message)
      : std::runtime_error(message), status_(status) {}
  dgap_status status() const noexcept { return status_; }

 private:
  dgap_status status_;
};

namespace detail {
inline void check(dgap_status status) {
  if (status != DGAP_OK) throw RuntimeError(status);
}
}  // namespace detail

/// An opened, fully verified bundle. Immutable: threads may share it.
class Bundle {
 public:
  explicit Bundle(const std::string& directory) {
    dgap_bundle* bundle = nullptr;
    detail::check(dgap_bundle_open(directory.c_str(), &bundle));
    bundle_.reset(bundle);
  }

  std::int64_t vocab_size() const noexcept { return dgap_bundle_vocab_size(bundle_.get()); }
  /// Names of the precisions, in order; views into the bundle.
  std::vector<std::string_view> precisions() const {
    std::vector<std::string_view> names;
    for (std::int32_t i = 0; i < dgap_bundle_precision_count(bundle_.get()); ++i) {
      names.emplace_back(dgap_bundle_precision_name(bundle_.get(), i));
    }
    return names;
  }
  std::int64_t hidden_size() const noexcept { return dgap_bundle_hidden_size(bundle_.get()); }
  /// manifest.json as it was read and verified; a view into the bundle.
  std::string_view manifest() const noexcept { return dgap_bundle_manifest(bundle_.get()); }
  const dgap_bundle* handle() const noexcept { return bundle_.get(); }

 private:
  struct Close {
    void operator()(dgap_bundle* bundle) const noexcept { dgap_bundle_close(bundle); }
  };
  std::unique_ptr<dgap_bundle, Close> bundle_;
};

/// The token ids of one sequence, for correctors that take the context. One thread at a time.
///
///     dgap::Context context(bundle);
///     context.begin(prompt);
///     restorer.restore(row, context);   // row: logits after the last id of the context
///     context.accept(sampled);          // context.roll_back(n) for what is rejected
class Context {
 public:
  /// `capacity` tokens fit without another allocation.
  explicit Context(const Bundle& bundle, std::int64_t capacity = 0) {
    dgap_context* context = nullptr;
    detail::check(dgap_context_create(bundle.handle(), capacity, &context));
    context_.reset(context);
  }

  void begin(std::span<const std::int32_t> ids) {
    detail::check(dgap_context_begin(context_.get(), ids.data(), size(ids)));
  }
  void accept(std::span<const std::int32_t> ids) {
    detail::check(dgap_context_accept(context_.get(), ids.data(), size(ids)));
  }
  void accept(std::int32_t id) { accept({&id, 1}); }
  void roll_back(std::int64_t count) {
    detail::check(dgap_context_roll_back(context_.get(), count));
  }
  std::int64_t length() const noexcept { return dgap_context_length(context_.get()); }
  const dgap_context* handle() const noexcept { return context_.get(); }

 private:
  static std::int64_t size(std::span<const std::int32_t> ids) {
    return static_cast<std::int64_t>(ids.size());
  }
  struct Destroy {
    void operator()(dgap_context* context) const noexcept { dgap_context_destroy(context); }
  };
  std::unique_ptr<dgap_context, Destroy> context_;
};

/// The correction rate of one sequence, held by moving tau. One thread at a time.
class Controller {
 public:
  Controller(const Bundle& bundle, const std::string& precision) {
    dgap_controller* controller = nullptr;
    detail::check(dgap_controller_create(bundle.handle(), precision.c_str(), &controller));
    controller_.reset(controller);
  }

  void reset() noexcept { dgap_controller_reset(controller_.get()); }
  double tau() const noexcept { return dgap_controller_tau(controller_.get()); }
  dgap_controller* handle() noexcept { return controller_.get(); }

 private:
  struct Destroy {
    void operator()(dgap_controller* controller) const noexcept {
      dgap_controller_destroy(controller);
    }
  };
  std::unique_ptr<dgap_controller, Destroy> controller_;
};

/// One precision of a bundle, with the scratch of one thread. The bundle may be closed before it.
class Restorer {
 public:
  Restorer(const Bundle& bundle, const std::string& precision) {
    dgap_restorer* restorer = nullptr;
    detail::check(dgap_restorer_create(bundle.handle(), precision.c_str(), &restorer));
    restorer_.reset(restorer);
  }

  /// Verdict and risk of every row of `logits`, which stay as they are; `results` holds
  /// logits.rows.
  void score(const dgap_logits& logits, std::span<dgap_result> results) {
    require(logits, results);
    detail::check(dgap_restorer_score(restorer_.get(), &logits, results.data()));
  }
  /// The same, and rows with the verdict DGAP_RESTORE are corrected in place.
  void restore(const dgap_logits& logits, std::span<dgap_result> results) {
    require(logits, results);
    detail::check(dgap_restorer_restore(restorer_.get(), &logits, results.data()));
  }

  /// Whether rows can be corrected only with the text before them.
  bool takes_context() const noexcept { return dgap_restorer_takes_context(restorer_.get()) != 0; }
  /// The same as restore(logits, results), with the text before every row.
  void restore(const dgap_logits& logits, std::span<const dgap_context* const> contexts,
               std::span<dgap_result> results) {
    require(logits, results);
    if (static_cast<std::int64_t>(contexts.size()) < logits.rows) {
      throw RuntimeError(DGAP_INVALID_ARGUMENT, "there are fewer contexts than rows");
    }
    detail::check(dgap_restorer_restore_in_context(restorer_.get(), contexts.data(), &logits,
                                                   results.data()));
  }

  /// From now on rows are those of this controller's sequence; nullptr: the bundle's tau again.
  void set_controller(Controller* controller) {
    dgap_controller* const handle = controller == nullptr ? nullptr : controller->handle();
    detail::check(dgap_restorer_set_controller(restorer_.get(), handle));
  }

  /// Whether rows can be corrected only with the hidden states that they were computed from.
  bool takes_hidden() const noexcept { return dgap_restorer_takes_hidden(restorer_.get()) != 0; }
  /// The same with hidden states, one per row, described as logits are; `contexts` may be empty
  /// where none are taken.
  void restore(const dgap_logits& logits, std::span<const dgap_context* const> contexts,
               const dgap_logits& hidden, std::span<dgap_result> results) {
    require(logits, results);
    if (takes_context() && static_cast<std::int64_t>(contexts.size()) < logits.rows) {
      throw RuntimeError(DGAP_INVALID_ARGUMENT, "there are fewer contexts than rows");
    }
    detail::check(dgap_restorer_restore_with(restorer_.get(), contexts.data(), &hidden, &logits,
                                             results.data()));
  }

  /// One contiguous row of f32.
  dgap_result score(std::span<const float> row) {
    dgap_result result;
    score(view(const_cast<float*>(row.data()), row.size()), {&result, 1});
    return result;
  }
  dgap_result restore(std::span<float> row) {
    dgap_result result;
    restore(view(row.data(), row.size()), {&result, 1});
    return result;
  }
  dgap_result restore(std::span<float> row, const Context& context) {
    dgap_result result;
    const dgap_context* const text = context.handle();
    restore(view(row.data(), row.size()), {&text, 1}, {&result, 1});
    return result;
  }

 private:
  static dgap_logits view(float* data, std::size_t width) {
    const auto n = static_cast<std::int64_t>(width);
    return {data, DGAP_F32, 1, n, n * static_cast<std::int64_t>(sizeof(float)), sizeof(float)};
  }
  static void require(const dgap_logits& logits, std::span<const dgap_result> results) {
    if (static_cast<std::int64_t>(results.size()) < logits.rows) {
      throw RuntimeError(DGAP_INVALID_ARGUMENT, "results hold fewer entries than logits have rows");
    }
  }
  struct Destroy {
    void operator()(dgap_restorer* restorer) const noexcept { dgap_restorer_destroy(restorer); }
  };
  std::unique_ptr<dgap_restorer, Destroy> restorer_;
};

}  // namespace dgap
