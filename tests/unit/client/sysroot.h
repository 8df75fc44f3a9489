/* sysroot.h: folders that look like machines, made from tests/doctor/cases.txt (its head says how). Test code: what
 * goes wrong is a failed assertion. One thread.
 */
#ifndef SYSROOT_H
#define SYSROOT_H

#include <stddef.h>

struct sysroot_expect {
    char check[32], verdict[8], text[256];
};

struct sysroot_case {
    char name[80];
    struct sysroot_expect expects[64];
    size_t n_expects;
};

struct sysroot_file; /* the whole list, read at once: whoever gives up rights afterwards needs no file any more */

struct sysroot_file *sysroot_file_read(const char *path);
void sysroot_file_close(struct sysroot_file *file);
size_t sysroot_file_n_cases(const struct sysroot_file *file);
/* The case's name and what it expects. */
void sysroot_file_case(const struct sysroot_file *file, size_t i, struct sysroot_case *ret);
/* Makes case i in `dir`, which exists and is empty. */
void sysroot_make(const struct sysroot_file *file, size_t i, const char *dir);
/* The index of the case of that name. */
size_t sysroot_file_find(const struct sysroot_file *file, const char *name);
/* A new folder, its path in `ret`; and away with one and all below it. */
void sysroot_dir_create(char ret[64]);
void sysroot_dir_remove(const char *dir);

#endif
