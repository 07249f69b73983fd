/* consumer_c BUNDLE PRECISION: restores one row of ramped logits, in structs as llama.cpp has them,
 * and prints verdict, risk and the sum of the logits. */
#include <dgap/runtime.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct token_data {
  int32_t id;
  float logit;
  float p;
} token_data;

static int fail(const char* what) {
  fprintf(stderr, "%s: %s\n", what, dgap_last_error());
  return 1;
}

int main(int argc, char** argv) {
  dgap_bundle* bundle = NULL;
  dgap_restorer* restorer = NULL;
  dgap_result result;
  double sum = 0.0;
  if (argc != 3) return 2;
  if (dgap_bundle_open(argv[1], &bundle) != DGAP_OK) return fail("open");
  if (dgap_restorer_create(bundle, argv[2], &restorer) != DGAP_OK) return fail("create");
  const int64_t n = dgap_bundle_vocab_size(bundle);
  dgap_bundle_close(bundle);

  token_data* tokens = malloc((size_t)n * sizeof *tokens);
  if (tokens == NULL) return 1;
  for (int64_t i = 0; i < n; ++i) {
    tokens[i].id = (int32_t)i;
    tokens[i].logit = (float)((i * 37) % n) * 0.03125f;
    tokens[i].p = 0.0f;
  }
  const dgap_logits logits = {&tokens[0].logit, DGAP_F32, 1, n, 0, sizeof *tokens};
  if (dgap_restorer_restore(restorer, &logits, &result) != DGAP_OK) return fail("restore");
  for (int64_t i = 0; i < n; ++i) {
    if (tokens[i].id != (int32_t)i) return 1;
    sum += (double)tokens[i].logit;
  }
  printf("verdict %d window %d risk %.9g sum %.17g\n", (int)result.verdict, (int)result.window,
         (double)result.risk, sum);
  free(tokens);
  dgap_restorer_destroy(restorer);
  return 0;
}
