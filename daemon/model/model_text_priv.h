/* model_text_priv.h: what a model is called, for people to read. */
#ifndef HALO_MODEL_MODEL_TEXT_PRIV_H
#define HALO_MODEL_MODEL_TEXT_PRIV_H

#include <store/gguf.h>

/* general.name, or the file's stem without ".gguf" and the numbers of a split set. Always valid UTF-8 on one line, cut
 * to fit. */
void halo_model_name(const struct halo_gguf *gguf, const char *path, char *ret, size_t n);

#endif
