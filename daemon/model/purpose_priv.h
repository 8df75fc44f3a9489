/* purpose_priv.h: see purpose.c. */
#ifndef HALO_MODEL_PURPOSE_PRIV_H
#define HALO_MODEL_PURPOSE_PRIV_H

#include <base/fault.h>
#include <store/gguf.h>

/* 0, or UNSUPPORTED with what the file is instead of a model that generates text. Reads the directory only. */
int halo_purpose_check(const struct halo_gguf *gguf, struct halo_fault *fault);

#endif
