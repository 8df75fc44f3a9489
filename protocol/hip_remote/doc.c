/* doc.c: keeps the tables of docs/HIP-REMOTE.md equal to hip_remote.def and limits.h.
 *
 *   hip-remote-doc --check FILE    exit 1 and the first differing line if a table is not what the list says
 *   hip-remote-doc --write FILE    put the right tables in
 *
 * The tables are called `operations` and `wire-limits`; the page must have both.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <protocol/doc_tables.h>

#include <hip_remote/table.h>

static const char *const type_names[HALO_REMOTE_N_HANDLE_TYPES] = {
    [HALO_REMOTE_NULL] = "null",       [HALO_REMOTE_STREAM] = "stream",     [HALO_REMOTE_EVENT] = "event",
    [HALO_REMOTE_MODULE] = "module",   [HALO_REMOTE_FUNCTION] = "function", [HALO_REMOTE_GRAPH] = "graph",
    [HALO_REMOTE_GRAPH_EXEC] = "exec", [HALO_REMOTE_BLOB] = "blob",
};

static void write_number(FILE *out, int64_t value)
{
    if (value == INT64_MAX)
        fprintf(out, "2^63-1");
    else if (value == HALO_REMOTE_SIZE_MAX)
        fprintf(out, "2^63-2");
    else if (value == UINT32_MAX)
        fprintf(out, "2^32-1");
    else if (value == INT32_MAX)
        fprintf(out, "2^31-1");
    else if (value == INT32_MIN)
        fprintf(out, "-2^31");
    else
        fprintf(out, "%" PRId64, value);
}

static void write_range(FILE *out, const char *type, const struct halo_remote_field *f)
{
    fprintf(out, "%s ", type);
    write_number(out, f->lo);
    fprintf(out, "…");
    write_number(out, f->hi);
}

static void write_field(FILE *out, const struct halo_remote_field *f)
{
    fprintf(out, "`%s` ", f->name);
    switch (f->kind) {
    case HALO_REMOTE_KIND_U32: write_range(out, "u32", f); break;
    case HALO_REMOTE_KIND_I32: write_range(out, "i32", f); break;
    case HALO_REMOTE_KIND_U64: write_range(out, "u64", f); break;
    case HALO_REMOTE_KIND_F32: fprintf(out, "f32"); break;
    case HALO_REMOTE_KIND_ADDR: fprintf(out, "address%s", f->lo ? "" : " or 0"); break;
    case HALO_REMOTE_KIND_HANDLE: fprintf(out, "%s%s", type_names[f->hi], f->lo ? "" : " or 0"); break;
    case HALO_REMOTE_KIND_HASH: fprintf(out, "32 bytes"); break;
    case HALO_REMOTE_KIND_TEXT: write_range(out, "text, bytes", f); break;
    case HALO_REMOTE_KIND_BYTES: write_range(out, "u32 and bytes", f); break;
    case HALO_REMOTE_KIND_DATA: write_range(out, "data, bytes", f); break;
    case HALO_REMOTE_KIND_END: break;
    }
}

static void write_fields(FILE *out, const struct halo_remote_shape *shape)
{
    const struct halo_remote_field *first = shape->fields();
    for (const struct halo_remote_field *f = first; f->kind != HALO_REMOTE_KIND_END; f++) {
        fprintf(out, f == first ? " " : "; ");
        write_field(out, f);
    }
    fprintf(out, " |");
}

static void write_operations(FILE *out)
{
    static const char *const answers[] = {"none", "deferred", "needed"};
    static const char *const quotas[] = {"",        "memory",    "staging", "streams", "events",
                                         "modules", "functions", "graphs",  "blobs"};
    fprintf(out, "| number | name | answer | quota | request | reply | what it is |\n|---|---|---|---|---|---|---|\n");
    for (int i = 0; i < HALO_REMOTE_N_OPS; i++) {
        const struct halo_remote_op_info *op = &halo_remote_ops[i];
        fprintf(out, "| 0x%04x | `%s` | %s | %s |", op->number, op->name, answers[op->answer], quotas[op->quota]);
        write_fields(out, &op->request);
        write_fields(out, &op->reply);
        fprintf(out, " %s |\n", op->doc);
    }
}

static void write_limits(FILE *out)
{
    static const struct {
        const char *what;
        uint64_t value;
    } rows[] = {
        {"bulk data of one frame, bytes", HALO_REMOTE_DATA_MAX},
        {"other fields of one frame, bytes", HALO_REMOTE_FIELDS_MAX},
        {"payload of the first frame, bytes", HALO_REMOTE_FIRST_MAX},
        {"explicit arguments of one launch, bytes", HALO_REMOTE_ARGS_MAX},
        {"a symbol, bytes", HALO_REMOTE_NAME_MAX},
        {"devices", HALO_REMOTE_DEVICES_MAX},
        {"handles of one type", HALO_REMOTE_INDEX_MAX},
    };
    fprintf(out, "| limit | value |\n|---|---|\n");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        fprintf(out, "| %s | %" PRIu64 " |\n", rows[i].what, rows[i].value);
}

struct seen {
    bool operations, limits;
};

static bool write_table(FILE *out, const char *what, void *ud)
{
    struct seen *seen = ud;
    if (strcmp(what, "operations") == 0) {
        write_operations(out);
        return seen->operations = true;
    }
    if (strcmp(what, "wire-limits") == 0) {
        write_limits(out);
        return seen->limits = true;
    }
    return false;
}

static int missing(void *ud)
{
    const struct seen *seen = ud;
    int n = 0;
    n += !seen->operations && fprintf(stderr, "no table: operations\n") > 0;
    n += !seen->limits && fprintf(stderr, "no table: wire-limits\n") > 0;
    return n;
}

int main(int argc, char **argv)
{
    struct seen seen = {0};
    const struct halo_doc_tables tables = {
        .program = "hip-remote-doc",
        .source = "hip_remote.def",
        .write_table = write_table,
        .missing = missing,
        .ud = &seen,
    };
    return halo_doc_tables_main(argc, argv, &tables);
}
