#pragma once
#include <dgap/runtime.h>
#include <llama.h>

/* dgap in a llama.cpp sampler chain. Add it first:
 *
 *     struct llama_sampler* repair = dgap_llama_sampler_create(bundle, "llamacpp-q8_0", model);
 *     dgap_llama_sampler_begin(repair, prompt, n_prompt);    where the precision takes the context
 *     llama_sampler_chain_add(chain, repair);                then penalties, top-k, temperature,
 * ...
 *
 * Logits are found by id, so candidates may come in any order. Where they are not the whole
 * vocabulary (a sampler before this one has cut them) they are left as they are. Ids that the chain
 * accepts feed the context. What goes wrong is said once, through llama.cpp's log. */
#ifdef __cplusplus
extern "C" {
#endif

/* NULL, and why in the log, for an unknown precision, one that takes hidden states, or a model of
 * another vocabulary or hidden size (which NULL for `model` leaves unchecked; the cache's types are
 * the caller's to compare with the precision's scheme). The bundle must outlive the sampler and its
 * clones; the chain frees the sampler. */
struct llama_sampler* dgap_llama_sampler_create(const dgap_bundle* bundle, const char* precision,
                                                const struct llama_model* model);

/* The sequence begins with these ids; llama_sampler_reset begins it with none. */
dgap_status dgap_llama_sampler_begin(struct llama_sampler* sampler, const llama_token* ids,
                                     int32_t count);

/* Of the last row; DGAP_REJECTED before the first one and where the row was left out. */
dgap_result dgap_llama_sampler_last(const struct llama_sampler* sampler);

#ifdef __cplusplus
}
#endif
