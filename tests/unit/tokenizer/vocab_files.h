/* vocab_files.h: finds and reads the files that tokenizer tests run on. Test code: one thread, prints to stderr,
 * fails tests by cmocka. */
#ifndef TEST_VOCAB_FILES_H
#define TEST_VOCAB_FILES_H

#include <stdbool.h>
#include <stddef.h>

#include <tokenizer/tokenizer.h>

struct file_bytes {
    char *bytes;
    size_t n;
}; /* owned; a NUL follows the last byte */

/* The reference folder beside the tree (HALO_SHARED overrides it), or NULL when it is not there. */
const char *shared_folder(void);
/* The model in the tree. */
const char *fable_path(void);

/* Reads a whole file (".gz": its content). Fails the test when it cannot. */
struct file_bytes file_read(const char *folder, const char *name);
bool file_exists(const char *folder, const char *name);

/* A tokenizer from a file; fails the test with the fault's text. */
struct halo_tokenizer *tokenizer_open(const char *folder, const char *name);

#endif
