/* doc_tables.h: keeps the tables of a page of the documentation equal to the list that they are made from.
 *
 * A table stands between the lines `<!-- table: WHAT -->` and `<!-- end of table -->`; the text around is a person's.
 * For the programs that generate documents; one thread.
 */
#ifndef HALO_PROTOCOL_DOC_TABLES_H
#define HALO_PROTOCOL_DOC_TABLES_H

#include <stdbool.h>
#include <stdio.h>

struct halo_doc_tables {
    const char *program; /* its name: "protocol-doc" */
    const char *source;  /* the list: "message.def" */
    /* Writes the table of `what`: up to 79 of the characters a-z, 0-9, _, - and space. False: there is none. */
    bool (*write_table)(FILE *out, const char *what, void *ud);
    /* Called after the last table: tells on stderr which tables the page lacks; their number. */
    int (*missing)(void *ud);
    void *ud;
};

/* The main of such a program: `--check FILE` returns 1 and tells the first line that differs, `--write FILE` puts the
 * right tables in. */
int halo_doc_tables_main(int argc, char **argv, const struct halo_doc_tables *tables);

#endif
