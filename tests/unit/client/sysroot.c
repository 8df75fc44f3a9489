/* sysroot.c: makes folders that look like machines. */
#include "sysroot.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#define MAX_CASES 512
#define PATH_ROOM 1024

struct sysroot_file {
    char **lines;
    size_t n_lines;
    size_t at[MAX_CASES + 1]; /* the line of each case, and the one behind the last */
    size_t n_cases;
};

struct sysroot_file *sysroot_file_read(const char *path)
{
    struct sysroot_file *file = calloc(1, sizeof *file);
    FILE *in = fopen(path, "r");
    char *line = NULL;
    size_t room = 0;
    ssize_t n;
    if (!in)
        fail_msg("%s: %s", path, strerror(errno));
    while ((n = getline(&line, &room, in)) >= 0) {
        line[strcspn(line, "\n")] = '\0';
        file->lines = reallocarray(file->lines, file->n_lines + 1, sizeof *file->lines);
        if (strncmp(line, "case ", 5) == 0) {
            assert_true(file->n_cases < MAX_CASES);
            file->at[file->n_cases++] = file->n_lines;
        }
        file->lines[file->n_lines++] = strdup(line);
    }
    file->at[file->n_cases] = file->n_lines;
    free(line);
    fclose(in);
    return file;
}

void sysroot_file_close(struct sysroot_file *file)
{
    for (size_t i = 0; i < file->n_lines; i++)
        free(file->lines[i]);
    free(file->lines);
    free(file);
}

size_t sysroot_file_n_cases(const struct sysroot_file *file)
{
    return file->n_cases;
}

/* "case NAME from NAME": both. */
static void names_of(const char *line, char name[80], char from[80])
{
    const char *at = line + strlen("case "), *behind = strstr(at, " from ");
    snprintf(name, 80, "%.*s", (int)(behind ? behind - at : (long)strlen(at)), at);
    snprintf(from, 80, "%s", behind ? behind + strlen(" from ") : "");
}

size_t sysroot_file_find(const struct sysroot_file *file, const char *name)
{
    char own[80], from[80];
    for (size_t i = 0; i < file->n_cases; i++) {
        names_of(file->lines[file->at[i]], own, from);
        if (strcmp(own, name) == 0)
            return i;
    }
    fail_msg("no case \"%s\"", name);
    return 0;
}

void sysroot_file_case(const struct sysroot_file *file, size_t i, struct sysroot_case *ret)
{
    char from[80];
    memset(ret, 0, sizeof *ret);
    names_of(file->lines[file->at[i]], ret->name, from);
    for (size_t l = file->at[i] + 1; l < file->at[i + 1]; l++) {
        struct sysroot_expect *e = &ret->expects[ret->n_expects];
        if (strncmp(file->lines[l], "expect ", 7) != 0)
            continue;
        assert_true(ret->n_expects + 1 < sizeof ret->expects / sizeof *ret->expects);
        if (sscanf(file->lines[l], "expect %31s %7s %255[^\n]", e->check, e->verdict, e->text) < 2)
            fail_msg("line %zu: %s", l + 1, file->lines[l]);
        ret->n_expects++;
    }
}

/* ---- making ---- */

/* The folders above a path. Their links are followed, as they would be on the machine. */
static void make_parents(const char *dir, const char *path)
{
    char whole[PATH_ROOM];
    for (const char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
        snprintf(whole, sizeof whole, "%s%.*s", dir, (int)(at - path), path);
        if (mkdir(whole, 0755) != 0 && errno != EEXIST)
            fail_msg("%s: %s", whole, strerror(errno));
    }
}

static size_t unescape(char *text)
{
    char *to = text;
    for (const char *at = text; *at; at++) {
        unsigned byte;
        if (*at != '\\') {
            *to++ = *at;
        } else if (at[1] == 'x' && sscanf(at + 2, "%2x", &byte) == 1) {
            *to++ = (char)byte;
            at += 3;
        } else {
            at++;
            *to++ = (char)(*at == 'n' ? '\n' : *at == '0' ? '\0' : *at == 't' ? '\t' : *at);
        }
    }
    *to = '\0';
    return (size_t)(to - text);
}

static void write_file(const char *whole, const char *bytes, size_t n, int flags)
{
    int fd = open(whole, O_WRONLY | O_CREAT | flags, 0666);
    if (fd < 0 || write(fd, bytes, n) != (ssize_t)n)
        fail_msg("%s: %s", whole, strerror(errno));
    close(fd);
}

/* file PATH [TEXT], and the lines behind it. */
static void make_file(const struct sysroot_file *file, size_t l, const char *whole, const char *text)
{
    size_t next = l + 1;
    unlink(whole);
    write_file(whole, "", 0, O_TRUNC);
    for (; next < file->n_lines && strncmp(file->lines[next], "| ", 2) == 0; next++) {
        write_file(whole, file->lines[next] + 2, strlen(file->lines[next] + 2), O_APPEND);
        write_file(whole, "\n", 1, O_APPEND);
    }
    if (next == l + 1) {
        write_file(whole, text, strlen(text), O_APPEND);
        write_file(whole, "\n", 1, O_APPEND);
    }
}

static void make_elf(const char *whole, const char *flags)
{
    unsigned char head[64] = {0x7f, 'E', 'L', 'F', 2, 1, 1, 64};
    uint32_t value = (uint32_t)strtoul(flags, NULL, 16);
    head[16] = 3;   /* a shared object */
    head[18] = 224; /* for AMD GPUs */
    memcpy(head + 48, &value, sizeof value);
    write_file(whole, (const char *)head, sizeof head, O_TRUNC);
}

static void make_line(const struct sysroot_file *file, size_t l, const char *dir)
{
    char line[2048], whole[PATH_ROOM];
    snprintf(line, sizeof line, "%s", file->lines[l]);
    char *rest = line, *verb = strsep(&rest, " "), *path = strsep(&rest, " ");
    char *text = rest ? rest : (char *)"";
    if (strcmp(verb, "mode") == 0) {
        snprintf(whole, sizeof whole, "%s%s", dir, text);
        if (chmod(whole, (mode_t)strtoul(path, NULL, 8)) != 0)
            fail_msg("line %zu: %s: %s", l + 1, whole, strerror(errno));
        return;
    }
    unescape(path);
    snprintf(whole, sizeof whole, "%s%s", dir, path);
    if (path[0] != '/')
        fail_msg("line %zu: %s", l + 1, file->lines[l]);
    make_parents(dir, path);
    if (strcmp(verb, "file") == 0) {
        make_file(file, l, whole, text);
    } else if (strcmp(verb, "raw") == 0) {
        size_t n = unescape(text);
        write_file(whole, text, n, O_TRUNC);
    } else if (strcmp(verb, "elf") == 0) {
        make_elf(whole, text);
    } else if (strcmp(verb, "hole") == 0) {
        write_file(whole, "", 0, O_TRUNC);
        assert_int_equal(truncate(whole, (off_t)strtoll(text, NULL, 10)), 0);
    } else if (strcmp(verb, "dir") == 0) {
        assert_true(mkdir(whole, 0755) == 0 || errno == EEXIST);
    } else if (strcmp(verb, "fifo") == 0) {
        assert_int_equal(mkfifo(whole, 0666), 0);
    } else if (strcmp(verb, "link") == 0) {
        assert_int_equal(symlink(text, whole), 0);
    } else if (strcmp(verb, "remove") == 0) {
        struct stat st;
        if (lstat(whole, &st) != 0)
            fail_msg("line %zu: there is no %s to remove", l + 1, whole);
        sysroot_dir_remove(whole);
    } else {
        fail_msg("line %zu: %s", l + 1, file->lines[l]);
    }
}

void sysroot_make(const struct sysroot_file *file, size_t i, const char *dir)
{
    char name[80], from[80];
    names_of(file->lines[file->at[i]], name, from);
    if (from[0]) {
        size_t base = sysroot_file_find(file, from);
        assert_true(base < i); /* so that it ends */
        sysroot_make(file, base, dir);
    }
    for (size_t l = file->at[i] + 1; l < file->at[i + 1]; l++) {
        const char *line = file->lines[l];
        if (line[0] && line[0] != '#' && line[0] != '|' && strncmp(line, "expect ", 7) != 0)
            make_line(file, l, dir);
    }
}

/* ---- folders ---- */

void sysroot_dir_create(char ret[64])
{
    /* Thousands of small files: in memory where that can be. */
    snprintf(ret, 64, "%s/halo-sysroot-XXXXXX", access("/dev/shm", W_OK | X_OK) == 0 ? "/dev/shm" : "/tmp");
    assert_non_null(mkdtemp(ret));
    assert_int_equal(chmod(ret, 0755), 0);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *where)
{
    return remove(path);
}

void sysroot_dir_remove(const char *dir)
{
    assert_int_equal(nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}
