#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

/// What dgap_sampler.cpp needs of llama.cpp's llama.h, as it declares it, and a log to look at.
/// The sampler meets the real one in peers_llama_cpp.py.
using llama_token = int32_t;
enum ggml_log_level { GGML_LOG_LEVEL_WARN = 3 };
using ggml_log_callback = void (*)(ggml_log_level level, const char* text, void* user_data);

struct llama_model {
  int32_t tokens, embedding;
};
using llama_vocab = llama_model;

struct llama_token_data {
  llama_token id;
  float logit;
  float p;
};

struct llama_token_data_array {
  llama_token_data* data;
  size_t size;
  int64_t selected;
  bool sorted;
};

struct llama_sampler {
  struct llama_sampler_i* iface;
  void* ctx;
};

struct llama_sampler_i {
  const char* (*name)(const llama_sampler*);
  void (*accept)(llama_sampler*, llama_token);
  void (*apply)(llama_sampler*, llama_token_data_array*);
  void (*reset)(llama_sampler*);
  llama_sampler* (*clone)(const llama_sampler*);
  void (*free)(llama_sampler*);
};

inline std::string llama_stand_in_log;

inline llama_sampler* llama_sampler_init(llama_sampler_i* functions, void* context) {
  return new llama_sampler{functions, context};
}
inline void llama_sampler_free(llama_sampler* sampler) {
  sampler->iface->free(sampler);
  delete sampler;
}
inline void llama_log_get(ggml_log_callback* callback, void** user_data) {
  *callback = [](ggml_log_level, const char* text, void*) { llama_stand_in_log += text; };
  *user_data = nullptr;
}
inline const llama_vocab* llama_model_get_vocab(const llama_model* model) { return model; }
inline int32_t llama_vocab_n_tokens(const llama_vocab* vocab) { return vocab->tokens; }
inline int32_t llama_model_n_embd(const llama_model* model) { return model->embedding; }
