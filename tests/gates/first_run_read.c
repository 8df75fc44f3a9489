/* first_run_read.c: reads the JSON report of scripts/first-run strictly and prints a line for each stage:
 * "STAGE RESULT N findings: TEXT".
 *
 *   first_run_read FILE      exit status 0; 1: not JSON, or not of this form
 */
#include <stdio.h>

#include <jansson.h>

int main(int argc, char **argv)
{
    json_error_t error = {.line = 0};
    json_t *report = argc == 2 ? json_load_file(argv[1], JSON_REJECT_DUPLICATES, &error) : NULL, *stages = NULL, *stage;
    const char *kind;
    size_t i;
    int format = 0, seconds;
    if (!report || json_unpack_ex(report, &error, JSON_STRICT, "{s:i, s:s, s:o}", "format", &format, "kind", &kind,
                                  "stages", &stages) != 0) {
        fprintf(stderr, "first_run_read: %s: line %d: %s\n", argc == 2 ? argv[1] : "no file", error.line, error.text);
        return 1;
    }
    json_array_foreach(stages, i, stage)
    {
        const char *name, *result, *text;
        json_t *findings;
        if (json_unpack_ex(stage, &error, JSON_STRICT, "{s:s, s:s, s:i, s:s, s:o}", "stage", &name, "result", &result,
                           "seconds", &seconds, "text", &text, "findings", &findings) != 0) {
            fprintf(stderr, "first_run_read: stage %zu: %s\n", i, error.text);
            return 1;
        }
        printf("%s %s %zu findings: %s\n", name, result, json_array_size(findings), text);
    }
    json_decref(report);
    return format == 1 && i > 0 ? 0 : 1;
}
