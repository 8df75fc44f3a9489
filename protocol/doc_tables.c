/* doc_tables.c: reads a page, makes its tables anew, compares or writes. */
#include <protocol/doc_tables.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BEGIN "<!-- table: "
#define END "<!-- end of table -->"

/* Copies the document with its tables made anew. The number of faults, which were told. */
static int renew(char *text, FILE *out, const struct halo_doc_tables *tables)
{
    int n_faults = 0;

    for (char *line = text, *next; line && *line; line = next) {
        char *end = strchr(line, '\n');
        char what[80];

        next = end ? end + 1 : NULL;
        fwrite(line, 1, end ? (size_t)(end + 1 - line) : strlen(line), out);
        if (sscanf(line, BEGIN "%79[a-z0-9_ -]-->", what) != 1)
            continue;
        for (size_t n = strlen(what); n > 0 && (what[n - 1] == ' ' || what[n - 1] == '-'); n--)
            what[n - 1] = '\0';
        if (!tables->write_table(out, what, tables->ud))
            n_faults += fprintf(stderr, "no such table: %s\n", what) > 0;
        next = next ? strstr(next, END) : NULL;
        if (!next)
            n_faults += fprintf(stderr, "table %s does not end\n", what) > 0;
    }
    return n_faults + tables->missing(tables->ud);
}

static char *read_file(const char *path)
{
    FILE *in = fopen(path, "rb");
    char *text = NULL;
    size_t n = 0;

    if (!in || getdelim(&text, &n, '\0', in) < 0) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        free(text);
        text = NULL;
    }
    if (in)
        fclose(in);
    return text;
}

static int compare(const char *path, const char *is, const char *wanted, const struct halo_doc_tables *tables)
{
    int line = 1;

    if (strcmp(is, wanted) == 0)
        return 0;
    for (; *is && *is == *wanted; is++, wanted++)
        line += *is == '\n';
    fprintf(stderr, "%s:%d: the table is not what %s says; put it right with %s --write\n", path, line, tables->source,
            tables->program);
    return 1;
}

int halo_doc_tables_main(int argc, char **argv, const struct halo_doc_tables *tables)
{
    char *text, *wanted = NULL;
    size_t n = 0;
    FILE *out;
    int r = 1;

    if (argc != 3 || (strcmp(argv[1], "--check") != 0 && strcmp(argv[1], "--write") != 0)) {
        fprintf(stderr, "usage: %s --check|--write FILE\n", tables->program);
        return 2;
    }
    text = read_file(argv[2]);
    out = text ? open_memstream(&wanted, &n) : NULL;
    if (!out) {
        free(text);
        return 1;
    }
    r = renew(text, out, tables) > 0;
    fclose(out);
    if (r == 0 && argv[1][2] == 'c') {
        r = compare(argv[2], text, wanted, tables);
    } else if (r == 0) {
        out = fopen(argv[2], "wb");
        r = !out || fwrite(wanted, 1, n, out) != n || fclose(out) != 0;
    }
    free(text);
    free(wanted);
    return r;
}
