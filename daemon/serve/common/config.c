/* config.c: the table of settings, and the reader of halod.conf (INI, through libinih).
 *
 * Lines are read here and handed to libinih one by one, so that a fault can name its line, a line longer than libinih's
 * buffer is refused instead of being cut in two, and an indented line is not taken for the continuation of the one
 * before.
 */
#include <serve/config.h>

#include <assert.h>
#include <errno.h>
#include <ini.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <base/endpoint.h>
#include <protocol/limits.h>

enum key_kind { KEY_STRING, KEY_PATH, KEY_DIR, KEY_DEVICE, KEY_LEVEL, KEY_BOOL, KEY_NUMBER, KEY_SECONDS };

struct key {
    const char *section, *name;
    enum key_kind kind;
    size_t offset;           /* into struct halo_config */
    int64_t min, max, value; /* of a path: its bytes, where max is not 0 */
};

#define FIELD(member) offsetof(struct halo_config, member)
#define NUMBER(section, member, min, max, value)                                                                       \
    {                                                                                                                  \
        section, #member, KEY_NUMBER, FIELD(member), min, max, value                                                   \
    }
#define HOUR_MS (3600 * 1000)
#define MIB (1ll << 20)
#define GIB (1ll << 30)

static const struct key keys[] = {
    {"daemon", "socket", KEY_PATH, FIELD(socket_path), 1, HALO_CONFIG_SOCKET_BYTES},
    {"daemon", "state_dir", KEY_PATH, FIELD(state_dir)},
    {"daemon", "admin_group", KEY_STRING, FIELD(admin_group)},
    {"daemon", "log_level", KEY_LEVEL, FIELD(log_level)},
    NUMBER("daemon", drain_ms, 0, HOUR_MS, 5000),
    {"models", "dir", KEY_DIR, FIELD(model_dirs)},
    {"models", "any_path", KEY_BOOL, FIELD(any_path), 0, 1, 1},
    {"models", "on_demand", KEY_BOOL, FIELD(on_demand), 0, 1, 1},
    {"models", "keep_alive_s", KEY_SECONDS, FIELD(keep_alive_s), -1, 1000000000, 0},
    NUMBER("models", budget_bytes, 0, INT64_MAX, 0),
    NUMBER("models", checkpoint_bytes, 0, INT64_MAX, 1ll << 30),
    NUMBER("prefixes", save_bytes, 0, INT64_MAX, 256ll << 20),
    NUMBER("prefixes", save_ms, 0, HOUR_MS, 2000),
    {"engine", "path", KEY_PATH, FIELD(engine_path)},
    {"engine", "device", KEY_DEVICE, FIELD(device)},
    {"engine", "hip_lib", KEY_PATH, FIELD(hip_lib)},
    NUMBER("engine", gpus, 1, 8, 1),
    {"engine", "remote", KEY_STRING, FIELD(remote)},
    {"engine", "remote_key", KEY_PATH, FIELD(remote_key)},
    {"engine", "sandbox", KEY_BOOL, FIELD(sandbox), 0, 1, 1},
    NUMBER("engine", threads, 0, 1024, 0),
    NUMBER("engine", heartbeat_ms, 500, HOUR_MS, 10000),
    NUMBER("engine", load_ms, 0, 24 * HOUR_MS, 120000),
    NUMBER("engine", first_ms, 0, 24 * HOUR_MS, 300000),
    NUMBER("engine", prefill_ms, 0, 24 * HOUR_MS, 120000),
    NUMBER("engine", step_ms, 0, 24 * HOUR_MS, 60000),
    NUMBER("engine", text_ms, 0, 24 * HOUR_MS, 60000),
    NUMBER("engine", ready_ms, 100, HOUR_MS, 30000),
    NUMBER("engine", restart_min_ms, 1, HOUR_MS, 10),
    NUMBER("engine", restart_max_ms, 1, HOUR_MS, 5000),
    NUMBER("engine", request_deaths, 1, 1000, 3),
    NUMBER("engine", breaker_deaths, 1, 1000, 5),
    NUMBER("engine", breaker_ms, 100, 24 * HOUR_MS, 60000),
    NUMBER("engine", wait_ms, 0, HOUR_MS, 30000),
    NUMBER("engine", status_ms, 1, 10000, 500),
    NUMBER("engine", kill_ms, 1, HOUR_MS, 1000),
    {"engine", "doctor", KEY_PATH, FIELD(doctor_path)},
    NUMBER("engine", doctor_ms, 0, HOUR_MS, 10000),
    {"defaults", "normalize", KEY_BOOL, FIELD(normalize), 0, 1, 1},
    {"defaults", "emit_token_ids", KEY_BOOL, FIELD(emit_token_ids), 0, 1, 0},
    NUMBER("limits", connections, 1, 65536, HALO_LIMIT_CONNECTIONS),
    NUMBER("limits", open_requests, 1, 4096, HALO_LIMIT_OPEN_REQUESTS),
    NUMBER("limits", queued_requests, 1, 65536, HALO_LIMIT_QUEUED_REQUESTS),
    NUMBER("limits", line_bytes, 1024, HALO_LIMIT_LINE_BYTES, HALO_LIMIT_LINE_BYTES),
    NUMBER("limits", output_high_bytes, 4096, GIB, HALO_LIMIT_OUTPUT_HIGH_BYTES),
    NUMBER("limits", output_low_bytes, 0, GIB, HALO_LIMIT_OUTPUT_LOW_BYTES),
    NUMBER("limits", output_bytes, MIB, 64 * GIB, HALO_LIMIT_OUTPUT_BYTES),
    NUMBER("limits", output_user_bytes, MIB, 64 * GIB, HALO_LIMIT_OUTPUT_USER_BYTES),
    NUMBER("limits", stall_ms, 10, HOUR_MS, HALO_LIMIT_STALL_MS),
    NUMBER("limits", resume_bytes, 1024, 64 * GIB, HALO_LIMIT_RESUME_BYTES),
    NUMBER("limits", resume_user_bytes, 1024, 64 * GIB, HALO_LIMIT_RESUME_USER_BYTES),
};

#define N_KEYS (sizeof(keys) / sizeof(keys[0]))

static bool is_number(const struct key *key)
{
    return key->kind == KEY_NUMBER || key->kind == KEY_SECONDS;
}

static void *slot_of(struct halo_config *config, const struct key *key)
{
    return (char *)config + key->offset;
}

int halo_config_set_string(char **slot, const char *value)
{
    char *copy = strdup(value);
    if (!copy)
        return -ENOMEM;
    free(*slot);
    *slot = copy;
    return 0;
}

int halo_config_init(struct halo_config *config)
{
    *config = (struct halo_config){.log_level = HALO_LOG_INFO};
    for (size_t i = 0; i < N_KEYS; i++) {
        if (is_number(&keys[i]))
            *(int64_t *)slot_of(config, &keys[i]) = keys[i].value;
        else if (keys[i].kind == KEY_BOOL)
            *(bool *)slot_of(config, &keys[i]) = keys[i].value != 0;
    }
    if (getenv("STATE_DIRECTORY")) /* systemd's service, which serves other users than its own */
        config->any_path = false;
    return halo_config_set_string(&config->device, "auto");
}

void halo_config_finish(struct halo_config *config)
{
    halo_config_clear_model_dirs(config);
    free(config->socket_path);
    free(config->admin_group);
    free(config->state_dir);
    free(config->engine_path);
    free(config->hip_lib);
    free(config->remote);
    free(config->remote_key);
    free(config->doctor_path);
    free(config->device);
    *config = (struct halo_config){0};
}

int halo_config_add_model_dir(struct halo_config *config, const char *dir)
{
    if (config->n_model_dirs == HALO_CONFIG_MODEL_DIRS)
        return -E2BIG;
    char **grown = realloc(config->model_dirs, (config->n_model_dirs + 1) * sizeof(*grown));
    if (!grown)
        return -ENOMEM;
    config->model_dirs = grown;
    grown[config->n_model_dirs] = strdup(dir);
    if (!grown[config->n_model_dirs])
        return -ENOMEM;
    config->n_model_dirs++;
    return 0;
}

void halo_config_clear_model_dirs(struct halo_config *config)
{
    for (size_t i = 0; i < config->n_model_dirs; i++)
        free(config->model_dirs[i]);
    free(config->model_dirs);
    config->model_dirs = NULL;
    config->n_model_dirs = 0;
}

static int parse_bool(const char *text, bool *ret_value)
{
    static const char *const yes[] = {"true", "yes", "on", "1"}, *const no[] = {"false", "no", "off", "0"};
    for (size_t i = 0; i < 4; i++) {
        if (strcmp(text, yes[i]) == 0) {
            *ret_value = true;
            return 0;
        }
        if (strcmp(text, no[i]) == 0) {
            *ret_value = false;
            return 0;
        }
    }
    return -EINVAL;
}

static int set_number(int64_t *slot, const struct key *key, const char *text, struct halo_fault *fault)
{
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0)
        return halo_fault_set(fault, HALO_FAULT_BAD_REQUEST, "%s: '%.64s' is not a whole number", key->name, text);
    if (value < key->min || value > key->max)
        return halo_fault_set(fault, HALO_FAULT_BAD_REQUEST, "%s: %lld is not between %lld and %lld", key->name, value,
                              (long long)key->min, (long long)key->max);
    *slot = value;
    return 0;
}

/* "300", "5m", "1h"; -1 and 0: never. */
static int set_seconds(int64_t *slot, const struct key *key, const char *text, struct halo_fault *fault)
{
    static const struct {
        char unit;
        int64_t seconds;
    } units[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}};
    struct key scaled = *key; /* with the range in this unit */
    char number[32];
    size_t n = strlen(text), n_digits = n;
    int64_t factor = 1;
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
        if (n > 1 && n < sizeof(number) && text[n - 1] == units[i].unit) {
            factor = units[i].seconds;
            n_digits = n - 1;
        }
    snprintf(number, sizeof(number), "%.*s", (int)n_digits, text);
    scaled.max /= factor;
    int r = set_number(slot, &scaled, n < sizeof(number) ? number : text, fault);
    if (r == 0)
        *slot = *slot > 0 ? *slot * factor : 0;
    return r;
}

/* Takes a path as a shell would: it may have quotes, start with ~ and be followed by a comment. */
static int read_path(const struct key *key, const char *text, char ret_path[PATH_MAX], struct halo_fault *fault)
{
    const char *home = getenv("HOME"), *comment = strstr(text, " #");
    size_t n = comment ? (size_t)(comment - text) : strlen(text);
    while (n > 0 && (text[n - 1] == ' ' || text[n - 1] == '\t'))
        n--;
    if (n >= 2 && (text[0] == '"' || text[0] == '\'') && text[n - 1] == text[0]) {
        text++;
        n -= 2;
    }
    bool at_home = n >= 1 && text[0] == '~' && (n == 1 || text[1] == '/');
    if (at_home && (!home || *home == '\0'))
        return halo_fault_set(fault, HALO_FAULT_BAD_REQUEST, "%s: '%.*s' needs HOME, which is not set", key->name,
                              (int)(n > 64 ? 64 : n), text);
    int m = snprintf(ret_path, PATH_MAX, "%s%.*s", at_home ? home : "", (int)(n - at_home), text + at_home);
    if (m <= 0 || m >= PATH_MAX)
        return halo_fault_set(fault, HALO_FAULT_BAD_REQUEST, "%s: %s", key->name,
                              m == 0 ? "has no value" : "the path is too long");
    return 0;
}

static int set_path(struct halo_config *config, const struct key *key, const char *text, struct halo_fault *fault)
{
    char path[PATH_MAX];
    int r = read_path(key, text, path, fault);
    if (r < 0)
        return r;
    if (key->max > 0 && strlen(path) > (size_t)key->max)
        return halo_fault_set(fault, HALO_FAULT_BAD_REQUEST, "%s: the path has %zu bytes, at most %lld are allowed",
                              key->name, strlen(path), (long long)key->max);
    if (key->kind == KEY_PATH)
        return halo_config_set_string(slot_of(config, key), path);
    r = halo_config_add_model_dir(config, path);
    return r == -E2BIG ? halo_fault_set(fault, HALO_FAULT_BAD_REQUEST, "%s: more than %d folders", key->name,
                                        HALO_CONFIG_MODEL_DIRS)
                       : r;
}

static int set_device(char **slot, const char *text, struct halo_fault *fault)
{
    if (strcmp(text, "auto") != 0 && strcmp(text, "cpu") != 0 && strcmp(text, "hip") != 0)
        return halo_fault_set(fault, HALO_FAULT_BAD_REQUEST, "device: '%.64s' is not one of auto, cpu, hip", text);
    return halo_config_set_string(slot, text);
}

static int set_key(struct halo_config *config, const struct key *key, const char *value, struct halo_fault *fault)
{
    void *slot = slot_of(config, key);
    if (*value == '\0')
        return halo_fault_set(fault, HALO_FAULT_BAD_REQUEST, "%s: has no value", key->name);
    switch (key->kind) {
    case KEY_NUMBER: return set_number(slot, key, value, fault);
    case KEY_DEVICE: return set_device(slot, value, fault);
    case KEY_BOOL:
        if (parse_bool(value, slot) == 0)
            return 0;
        return halo_fault_set(fault, HALO_FAULT_BAD_REQUEST, "%s: '%.64s' is neither true nor false", key->name, value);
    case KEY_LEVEL:
        if (halo_log_level_parse(value, slot) == 0)
            return 0;
        return halo_fault_set(fault, HALO_FAULT_BAD_REQUEST, "%s: '%.64s' is not one of error, warn, info, debug",
                              key->name, value);
    case KEY_SECONDS: return set_seconds(slot, key, value, fault);
    case KEY_PATH:
    case KEY_DIR: return set_path(config, key, value, fault);
    case KEY_STRING: return halo_config_set_string(slot, value);
    }
    return -EINVAL;
}

int halo_config_set(struct halo_config *config, const char *section, const char *key, const char *value,
                    struct halo_fault *fault)
{
    bool known_section = false;
    for (size_t i = 0; i < N_KEYS; i++) {
        if (strcmp(keys[i].section, section) != 0)
            continue;
        known_section = true;
        if (strcmp(keys[i].name, key) == 0)
            return set_key(config, &keys[i], value, fault);
    }
    if (*section == '\0')
        return halo_fault_set(fault, HALO_FAULT_BAD_REQUEST, "'%.64s' stands before the first [section]", key);
    if (!known_section)
        return halo_fault_set(fault, HALO_FAULT_BAD_REQUEST, "unknown section [%.64s]", section);
    return halo_fault_set(fault, HALO_FAULT_BAD_REQUEST, "unknown key '%.64s' in section [%s]", key, section);
}

struct reading {
    struct halo_config *config;
    struct halo_fault *fault;
    FILE *file;
    int line; /* number of the line that libinih has now */
    int error;
    int fault_line;
    int read_errno; /* 0: the end of the file */
};

static void note_fault(struct reading *reading, int error)
{
    if (reading->error == 0) {
        reading->error = error;
        reading->fault_line = reading->line;
    }
}

static char *next_line(char *buffer, int room, void *ud)
{
    struct reading *reading = ud;
    char *line = NULL;
    size_t cap = 0;
    if (reading->error != 0)
        return NULL;
    ssize_t n = getline(&line, &cap, reading->file);
    if (n < 0) {
        reading->read_errno = ferror(reading->file) ? errno : 0;
        free(line);
        return NULL;
    }
    reading->line++;
    const char *text = line + strspn(line, " \t");
    size_t len = strlen(text);
    if (text + len != line + n) {
        note_fault(reading, halo_fault_set(reading->fault, HALO_FAULT_BAD_REQUEST, "the line holds a NUL byte"));
    } else if (len >= (size_t)room) {
        note_fault(reading, halo_fault_set(reading->fault, HALO_FAULT_BAD_REQUEST, "the line is longer than %d bytes",
                                           room - 1));
    } else {
        memcpy(buffer, text, len + 1);
    }
    free(line);
    return reading->error == 0 ? buffer : NULL;
}

static int take_key(void *ud, const char *section, const char *name, const char *value)
{
    struct reading *reading = ud;
    if (reading->error == 0) {
        int r = halo_config_set(reading->config, section, name, value, reading->fault);
        if (r < 0)
            note_fault(reading, r);
    }
    return reading->error == 0;
}

int halo_config_read(struct halo_config *config, const char *path, struct halo_fault *fault)
{
    struct reading reading = {.config = config, .fault = fault};
    reading.file = fopen(path, "re");
    if (!reading.file)
        return halo_fault_errno(fault, HALO_FAULT_NOT_FOUND, -errno, "cannot open %s", path);
    int bad_line = ini_parse_stream(next_line, &reading, take_key, &reading);
    fclose(reading.file);
    if (reading.error == 0 && reading.read_errno != 0)
        return halo_fault_errno(fault, HALO_FAULT_NOT_FOUND, -reading.read_errno, "cannot read %s", path);
    if (reading.error == 0 && bad_line > 0) {
        reading.line = bad_line;
        note_fault(&reading, halo_fault_set(fault, HALO_FAULT_BAD_REQUEST, "neither 'key = value' nor '[section]'"));
    }
    if (reading.error != 0)
        halo_fault_prefix(fault, "%s:%d", path, reading.fault_line);
    return reading.error;
}

bool halo_config_saves(const struct halo_config *config)
{
    return config->state_dir && config->save_bytes > 0 && config->save_ms > 0;
}

int halo_config_check(const struct halo_config *config, struct halo_fault *fault)
{
    if (config->output_low_bytes >= config->output_high_bytes)
        return halo_fault_set(fault, HALO_FAULT_BAD_REQUEST,
                              "output_low_bytes (%lld) is not below output_high_bytes (%lld)",
                              (long long)config->output_low_bytes, (long long)config->output_high_bytes);
    if (config->restart_min_ms > config->restart_max_ms)
        return halo_fault_set(fault, HALO_FAULT_BAD_REQUEST, "restart_min_ms (%lld) is above restart_max_ms (%lld)",
                              (long long)config->restart_min_ms, (long long)config->restart_max_ms);
    int64_t least = config->output_high_bytes + HALO_LIMIT_ANSWER_BYTES;
    if (config->output_user_bytes < least)
        return halo_fault_set(fault, HALO_FAULT_BAD_REQUEST,
                              "output_user_bytes (%lld) is below output_high_bytes and one answer (%lld)",
                              (long long)config->output_user_bytes, (long long)least);
    if (config->output_user_bytes > config->output_bytes)
        return halo_fault_set(fault, HALO_FAULT_BAD_REQUEST, "output_user_bytes (%lld) is above output_bytes (%lld)",
                              (long long)config->output_user_bytes, (long long)config->output_bytes);
    if (config->resume_user_bytes > config->resume_bytes)
        return halo_fault_set(fault, HALO_FAULT_BAD_REQUEST, "resume_user_bytes (%lld) is above resume_bytes (%lld)",
                              (long long)config->resume_user_bytes, (long long)config->resume_bytes);
    for (const char *at = config->remote; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        int n = (int)strcspn(at, ",");
        struct halo_endpoint worker;
        if (!halo_endpoint_parse(&worker, at, (size_t)n))
            return halo_fault_set(fault, HALO_FAULT_BAD_REQUEST, "remote: '%.*s' is neither unix:PATH nor HOST:PORT",
                                  n < 100 ? n : 100, at);
    }
    if (config->gpus > 1 && strcmp(config->device, "cpu") == 0)
        return halo_fault_set(fault, HALO_FAULT_BAD_REQUEST, "gpus: device = cpu uses no GPU");
    if (config->remote && strcmp(config->device, "cpu") == 0)
        return halo_fault_set(fault, HALO_FAULT_BAD_REQUEST, "remote: device = cpu uses no worker");
    if (config->remote_key && !config->remote)
        return halo_fault_set(fault, HALO_FAULT_BAD_REQUEST, "remote_key: there is no remote to use it for");
    return 0;
}

bool halo_config_key_at(size_t i, struct halo_config_key_info *ret_info)
{
    if (i >= N_KEYS)
        return false;
    *ret_info = (struct halo_config_key_info){keys[i].section, keys[i].name, is_number(&keys[i]),
                                              keys[i].min,     keys[i].max,  keys[i].value};
    return true;
}

int64_t halo_config_number(const struct halo_config *config, size_t i)
{
    assert(i < N_KEYS && is_number(&keys[i]));
    return *(const int64_t *)((const char *)config + keys[i].offset);
}
