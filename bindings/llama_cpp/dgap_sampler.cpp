#include "bindings/llama_cpp/dgap_sampler.h"

#include <cmath>
#include <memory>
#include <string>
#include <vector>

namespace {

constexpr dgap_result kLeftOut{DGAP_REJECTED, 0, NAN};

struct Sampler {
  const dgap_bundle* bundle;
  std::string precision;
  std::unique_ptr<dgap_restorer, void (*)(dgap_restorer*)> restorer{nullptr,
                                                                    &dgap_restorer_destroy};
  std::unique_ptr<dgap_context, void (*)(dgap_context*)> context{nullptr, &dgap_context_destroy};
  std::vector<llama_token> ids;  // what the context holds, for clones
  std::vector<float> row;  // [vocabulary] logits by id, where candidates come in another order
  std::vector<bool> seen;  // [vocabulary] ids that the candidates hold
  dgap_result last = kLeftOut;
  bool said = false;
};

Sampler& of(const llama_sampler* sampler) { return *static_cast<Sampler*>(sampler->ctx); }

void say(const std::string& what) {
  ggml_log_callback log = nullptr;
  void* user_data = nullptr;
  llama_log_get(&log, &user_data);
  if (log != nullptr) log(GGML_LOG_LEVEL_WARN, ("dgap: " + what + "\n").c_str(), user_data);
}

void say_once(Sampler& self, const std::string& what) {
  if (!self.said) say(what);
  self.said = true;
}

bool in_order_of_ids(const llama_token_data_array& candidates, std::int64_t vocabulary) {
  for (std::int64_t i = 0; i < vocabulary; ++i) {
    if (candidates.data[i].id != static_cast<llama_token>(i)) return false;
  }
  return true;
}

/// The logits by id; false unless every id of the vocabulary is there once.
bool gather(const llama_token_data_array& candidates, Sampler& self) {
  self.seen.assign(self.row.size(), false);
  std::size_t found = 0;
  for (std::size_t i = 0; i < candidates.size; ++i) {
    const auto id = static_cast<std::size_t>(candidates.data[i].id);
    if (id >= self.row.size()) continue;  // padding
    if (self.seen[id]) return false;
    self.seen[id] = true;
    self.row[id] = candidates.data[i].logit;
    ++found;
  }
  return found == self.row.size();
}

void scatter(const Sampler& self, llama_token_data_array& candidates) {
  for (std::size_t i = 0; i < candidates.size; ++i) {
    const auto id = static_cast<std::size_t>(candidates.data[i].id);
    if (id < self.row.size()) candidates.data[i].logit = self.row[id];
  }
}

dgap_status restore(Sampler& self, float* first, std::size_t stride) {
  const auto width = static_cast<std::int64_t>(self.row.size());
  const dgap_logits view{first, DGAP_F32, 1, width, 0, static_cast<std::int64_t>(stride)};
  const dgap_context* const context = self.context.get();
  return dgap_restorer_restore_in_context(self.restorer.get(), &context, &view, &self.last);
}

void apply(llama_sampler* sampler, llama_token_data_array* candidates) {
  Sampler& self = of(sampler);
  self.last = kLeftOut;
  dgap_status status = DGAP_OK;
  if (candidates->size >= self.row.size() &&
      in_order_of_ids(*candidates, static_cast<std::int64_t>(self.row.size()))) {
    status = restore(self, &candidates->data[0].logit, sizeof(llama_token_data));
  } else if (gather(*candidates, self)) {
    status = restore(self, self.row.data(), sizeof(float));
    if (self.last.verdict == DGAP_RESTORE) scatter(self, *candidates);
  } else {
    say_once(self,
             "the candidates are not the whole vocabulary: logits are left as they are (it "
             "must be first in the chain)");
  }
  if (status != DGAP_OK) say_once(self, dgap_last_error());
  if (self.last.verdict == DGAP_RESTORE) candidates->sorted = false;
}

void accept(llama_sampler* sampler, llama_token id) {
  Sampler& self = of(sampler);
  if (self.context == nullptr) return;
  if (dgap_context_accept(self.context.get(), &id, 1) != DGAP_OK) {
    say_once(self, dgap_last_error());
  } else {
    self.ids.push_back(id);
  }
}

void reset(llama_sampler* sampler) {
  dgap_llama_sampler_begin(sampler, nullptr, 0);
  of(sampler).last = kLeftOut;
}

llama_sampler* clone(const llama_sampler* sampler) {
  const Sampler& self = of(sampler);
  llama_sampler* const made =
      dgap_llama_sampler_create(self.bundle, self.precision.c_str(), nullptr);
  if (made == nullptr) return nullptr;
  of(made).last = self.last;
  dgap_llama_sampler_begin(made, self.ids.data(), static_cast<std::int32_t>(self.ids.size()));
  return made;
}

void destroy(llama_sampler* sampler) { delete static_cast<Sampler*>(sampler->ctx); }

/// Members that other versions of llama.cpp have besides are null: all of them may be.
llama_sampler_i* interface() {
  static llama_sampler_i made = [] {
    llama_sampler_i functions{};
    functions.name = [](const llama_sampler*) { return "dgap"; };
    functions.accept = accept;
    functions.apply = apply;
    functions.reset = reset;
    functions.clone = clone;
    functions.free = destroy;
    return functions;
  }();
  return &made;
}

/// Empty where the model may be the bundle's.
std::string mismatch(const dgap_bundle* bundle, const llama_model* model) {
  const std::int64_t vocabulary = dgap_bundle_vocab_size(bundle);
  const std::int64_t here = llama_vocab_n_tokens(llama_model_get_vocab(model));
  const std::int64_t hidden = dgap_bundle_hidden_size(bundle);
  if (here < vocabulary) {
    return "the bundle has a vocabulary of " + std::to_string(vocabulary) + ", the model of " +
           std::to_string(here);
  }
  if (llama_model_n_embd(model) != hidden) {
    return "the bundle has a hidden size of " + std::to_string(hidden) + ", the model of " +
           std::to_string(llama_model_n_embd(model));
  }
  return "";
}

}  // namespace

llama_sampler* dgap_llama_sampler_create(const dgap_bundle* bundle, const char* precision,
                                         const llama_model* model) {
  const std::string wrong = model == nullptr ? "" : mismatch(bundle, model);
  if (!wrong.empty()) {
    say(wrong);
    return nullptr;
  }
  auto self = std::make_unique<Sampler>();
  self->bundle = bundle;
  dgap_restorer* restorer = nullptr;
  if (dgap_restorer_create(bundle, precision, &restorer) != DGAP_OK) {
    say(dgap_last_error());
    return nullptr;
  }
  self->precision = precision;
  self->restorer.reset(restorer);
  if (dgap_restorer_takes_hidden(restorer) != 0) {
    say("the precision takes hidden states, which samplers do not see");
    return nullptr;
  }
  if (dgap_restorer_takes_context(restorer) != 0) {
    dgap_context* context = nullptr;
    if (dgap_context_create(bundle, 0, &context) != DGAP_OK) {
      say(dgap_last_error());
      return nullptr;
    }
    self->context.reset(context);
  }
  self->row.resize(static_cast<std::size_t>(dgap_bundle_vocab_size(bundle)));
  return llama_sampler_init(interface(), self.release());
}

dgap_status dgap_llama_sampler_begin(llama_sampler* sampler, const llama_token* ids,
                                     int32_t count) {
  Sampler& self = of(sampler);
  if (self.context == nullptr) return DGAP_OK;
  const dgap_status status = dgap_context_begin(self.context.get(), ids, count);
  if (status == DGAP_OK) self.ids.assign(ids, ids + count);
  return status;
}

dgap_result dgap_llama_sampler_last(const llama_sampler* sampler) { return of(sampler).last; }
