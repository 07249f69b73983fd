/* What docs/runtime.md calls stable, asserted when this is compiled. */
#include <dgap/runtime.h>
#include <stddef.h>

#define AT(type, member, offset) \
  _Static_assert(offsetof(type, member) == (offset), #type "." #member " has moved")
#define IS(name, value) _Static_assert((name) == (value), #name " has another value")

_Static_assert(sizeof(void*) == 8, "sizes are those of 64-bit machines");

_Static_assert(sizeof(dgap_logits) == 48, "dgap_logits has another size");
AT(dgap_logits, data, 0);
AT(dgap_logits, dtype, 8);
AT(dgap_logits, rows, 16);
AT(dgap_logits, width, 24);
AT(dgap_logits, row_stride, 32);
AT(dgap_logits, element_stride, 40);

_Static_assert(sizeof(dgap_result) == 12, "dgap_result has another size");
AT(dgap_result, verdict, 0);
AT(dgap_result, window, 4);
AT(dgap_result, risk, 8);

_Static_assert(sizeof(dgap_status) == 4, "dgap_status has another size");
IS(DGAP_OK, 0);
IS(DGAP_INVALID_ARGUMENT, 1);
IS(DGAP_IO, 2);
IS(DGAP_UNSUPPORTED, 3);
IS(DGAP_OUT_OF_MEMORY, 4);
IS(DGAP_INTERNAL, 5);

IS(DGAP_F32, 0);
IS(DGAP_F16, 1);
IS(DGAP_BF16, 2);

IS(DGAP_KEEP, 0);
IS(DGAP_RESTORE, 1);
IS(DGAP_ESCALATE, 2);
IS(DGAP_REJECTED, 3);

int main(void) { return 0; }
