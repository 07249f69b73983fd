/* dgap runtime, C ABI. Repairs next-token logits of a model that is decoded over a low-bit key/value
 * cache (DGAP, arXiv:2607.16248). Everything here is C11. score and restore allocate nothing, lock
 * nothing and throw nothing; a restorer is used by one thread at a time, a bundle by any number, and
 * a restorer outlives its bundle if need be. Same logits, same bits, at every x86-64 level, in the
 * default floating-point environment (round to nearest, subnormals kept).
 *
 * Order in a sampler: first, on raw logits, before penalties, temperature and truncation. */
#ifndef DGAP_RUNTIME_H
#define DGAP_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

#if defined(DGAP_RUNTIME_BUILD)
#define DGAP_API __attribute__((visibility("default")))
#else
#define DGAP_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct dgap_bundle dgap_bundle;     /* an opened bundle; immutable, shared by threads */
typedef struct dgap_context dgap_context;   /* the token ids of one sequence; one thread at a time */
typedef struct dgap_controller dgap_controller; /* correction rate of one sequence; one thread */
typedef struct dgap_restorer dgap_restorer; /* one precision of a bundle, with scratch: one per thread */

typedef enum dgap_status {
  DGAP_OK = 0,
  DGAP_INVALID_ARGUMENT = 1, /* a null pointer, a width below the vocabulary, an unknown precision */
  DGAP_IO = 2,               /* the bundle cannot be read, or is damaged */
  DGAP_UNSUPPORTED = 3,      /* newer major version, unknown required feature */
  DGAP_OUT_OF_MEMORY = 4,
  DGAP_INTERNAL = 5
} dgap_status;

typedef enum dgap_dtype { DGAP_F32 = 0, DGAP_F16 = 1, DGAP_BF16 = 2 } dgap_dtype;

typedef enum dgap_verdict {
  DGAP_KEEP = 0,     /* risk <= tau: the row is as it was */
  DGAP_RESTORE = 1,  /* the window was corrected */
  DGAP_ESCALATE = 2, /* distorted and not covered, by the detector's second output where the bundle has
                        one, before restore and keep: the row is as it was; fall back to something else */
  DGAP_REJECTED = 3  /* NaN, +inf, no finite logit, or no finite result: the row is as it was */
} dgap_verdict;

/* Logits in the caller's memory, corrected in place. Strides in bytes: row_stride between rows,
 * element_stride between logits of a row (sizeof(element) when contiguous; llama.cpp's structs are
 * wider; for those, data points at the first logit). Any alignment. width >= vocabulary of the bundle:
 * what lies beyond the vocabulary is never read or written. Corrected logits are rounded to the type,
 * half to even, at most its largest finite number. */
typedef struct dgap_logits {
  void* data;
  int32_t dtype; /* dgap_dtype */
  int64_t rows;
  int64_t width;
  int64_t row_stride;
  int64_t element_stride;
} dgap_logits;

typedef struct dgap_result {
  int32_t verdict; /* dgap_verdict */
  int32_t window;  /* candidates used: K_b, less where fewer logits are finite */
  float risk;      /* sigmoid of the detector, in [0, 1]; NaN where there is none (rejected) */
} dgap_result;

/* Message of the last failed call in this thread; never NULL. */
DGAP_API const char* dgap_last_error(void);
DGAP_API const char* dgap_runtime_version(void);

/* Opens a bundle directory; every file is checked for size and hash. */
DGAP_API dgap_status dgap_bundle_open(const char* directory, dgap_bundle** bundle);
DGAP_API void dgap_bundle_close(dgap_bundle* bundle); /* NULL is fine */
DGAP_API int32_t dgap_bundle_precision_count(const dgap_bundle* bundle);
DGAP_API const char* dgap_bundle_precision_name(const dgap_bundle* bundle, int32_t index); /* NULL outside */
DGAP_API int64_t dgap_bundle_vocab_size(const dgap_bundle* bundle);
DGAP_API int64_t dgap_bundle_hidden_size(const dgap_bundle* bundle);
/* manifest.json as it was read and verified: UTF-8 JSON, for what this header has no function for (model,
 * tokenizer, the scheme of each precision). Valid until the bundle is closed; NULL for NULL. */
DGAP_API const char* dgap_bundle_manifest(const dgap_bundle* bundle);

DGAP_API dgap_status dgap_restorer_create(const dgap_bundle* bundle, const char* precision,
                                          dgap_restorer** restorer);
DGAP_API void dgap_restorer_destroy(dgap_restorer* restorer);

/* Detector only: verdicts and risks, logits unchanged. results: one per row. (A row may still turn
 * from DGAP_RESTORE to DGAP_REJECTED in dgap_restorer_restore, if its correction is not finite.) */
DGAP_API dgap_status dgap_restorer_score(dgap_restorer* restorer, const dgap_logits* logits,
                                         dgap_result* results);
/* Detector and corrector, in place. Logits outside the window keep every bit.
 * DGAP_INVALID_ARGUMENT for a restorer that takes the context or hidden states. */
DGAP_API dgap_status dgap_restorer_restore(dgap_restorer* restorer, const dgap_logits* logits,
                                           dgap_result* results);

/* Correctors may look at the text before a row: 1 where dgap_restorer_restore_in_context is needed. */
DGAP_API int32_t dgap_restorer_takes_context(const dgap_restorer* restorer);
/* The same as dgap_restorer_restore, with the text before every row: contexts[r] holds all ids up to
 * and including the one that row r was computed from. Rows may share a context. Contexts are read
 * only. Where the restorer takes none, they are not looked at. No allocation; time per row has a
 * bound that does not depend on the length of the text. */
DGAP_API dgap_status dgap_restorer_restore_in_context(dgap_restorer* restorer,
                                                      const dgap_context* const* contexts,
                                                      const dgap_logits* logits,
                                                      dgap_result* results);

/* Correctors may look at the model's final hidden states (after the final norm): 1 where
 * dgap_restorer_restore_with is needed. */
DGAP_API int32_t dgap_restorer_takes_hidden(const dgap_restorer* restorer);
/* The same as dgap_restorer_restore_in_context, with the hidden state that every row was computed
 * from: `hidden` describes them as it would logits, with as many rows and width >= the bundle's
 * hidden size, and is read only. What the restorer does not take is not looked at and may be NULL. */
DGAP_API dgap_status dgap_restorer_restore_with(dgap_restorer* restorer,
                                                const dgap_context* const* contexts,
                                                const dgap_logits* hidden, const dgap_logits* logits,
                                                dgap_result* results);

/* A sequence's ids, indexed: 8 bytes per token and 8 per vocabulary entry of the bundle. `capacity`
 * tokens fit without another allocation; more are accepted at amortised constant cost per token.
 * Failed calls change nothing. It outlives the bundle if need be. */
DGAP_API dgap_status dgap_context_create(const dgap_bundle* bundle, int64_t capacity,
                                         dgap_context** context);
DGAP_API void dgap_context_destroy(dgap_context* context); /* NULL is fine */
/* Forgets everything and begins with the prompt's ids. */
DGAP_API dgap_status dgap_context_begin(dgap_context* context, const int32_t* ids, int64_t count);
/* Appends ids: what was sampled, or what a speculative decoder proposes. */
DGAP_API dgap_status dgap_context_accept(dgap_context* context, const int32_t* ids, int64_t count);
/* Takes back the last `count` ids, as if they had never been accepted. */
DGAP_API dgap_status dgap_context_roll_back(dgap_context* context, int64_t count);
DGAP_API int64_t dgap_context_length(const dgap_context* context); /* 0 for NULL */

/* Holds the share of corrected rows of one sequence near the bundle's online rate by moving tau within
 * the bundle's bounds: after every row of dgap_restorer_restore tau += step x ([corrected] - rate).
 * DGAP_UNSUPPORTED where the precision has no online rate, or no threshold that could follow it. It
 * outlives the bundle if need be. */
DGAP_API dgap_status dgap_controller_create(const dgap_bundle* bundle, const char* precision,
                                            dgap_controller** controller);
DGAP_API void dgap_controller_destroy(dgap_controller* controller); /* NULL is fine */
/* Back to the bundle's tau: a new sequence begins. */
DGAP_API void dgap_controller_reset(dgap_controller* controller);
DGAP_API double dgap_controller_tau(const dgap_controller* controller); /* of the next row */
/* From now on the restorer's rows are those of the controller's sequence, in order (call it anew before
 * rows of another sequence); NULL: the bundle's tau again. The controller must live until then.
 * Restorers of mode "always" and "off" take no notice of it. */
DGAP_API dgap_status dgap_restorer_set_controller(dgap_restorer* restorer, dgap_controller* controller);

#ifdef __cplusplus
}
#endif
#endif
