/* model_stem.h: what requests call a model file: one rule for every process.
 *
 * "dir/name.gguf" and the parts of a split set, "dir/name-00001-of-00003.gguf", are called "name". Pure; any thread.
 */
#ifndef HALO_BASE_MODEL_STEM_H
#define HALO_BASE_MODEL_STEM_H

#include <stddef.h>

#define HALO_MODEL_STEM_BYTES 256 /* with its NUL: what a file system allows a name to have */

/* The stem of `path`, which has `len` bytes; a stem is its own. One that is too long is cut between two characters.
 * NUL-terminated; returns the length without it. */
size_t halo_model_stem(const char *path, size_t len, char ret_stem[static HALO_MODEL_STEM_BYTES]);

#endif
