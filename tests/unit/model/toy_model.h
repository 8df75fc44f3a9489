/* toy_model.h: opens a toy through halo_model_create, for tests. */
#ifndef HALO_TOY_MODEL_H
#define HALO_TOY_MODEL_H

#include <model/model.h>

#include "toy_gguf.h"

/* Writes the toy to a temporary file and opens it. 0 or the failure with *fault. The file is gone afterwards. */
int halo_toy_open(const struct halo_toy *toy, const struct halo_model_params *params, struct halo_model **ret,
                  struct halo_fault *fault);

/* Opens it and expects this refusal: the code, and a text that holds each of the fragments (NULL: none). Fails the test
 * otherwise. */
void halo_toy_refused(const struct halo_toy *toy, enum halo_fault_code code, const char *fragment,
                      const char *fragment2);
/* Opens it and expects success. The caller destroys the model. */
struct halo_model *halo_toy_accepted(const struct halo_toy *toy);

#endif
