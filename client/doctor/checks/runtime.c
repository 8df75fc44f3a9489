/* runtime.c: the HIP runtime that would be opened, the kernels for the chip, the environment. By reading alone:
 * nothing is loaded here, the tiers do that.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "check_priv.h"
#include "gpu.h"
#include "lines.h"

#define ENVIRONMENT_BYTES (1 << 20)

/* A variable of our own environment, as the tree tells it. False: not set (or no tree tells). */
static bool variable(struct halo_doctor_probe *probe, const char *name, char *ret, size_t room)
{
    char *text = malloc(ENVIRONMENT_BYTES);
    long n = text ? halo_doctor_probe_head(probe, text, ENVIRONMENT_BYTES, "/proc/self/environ") : -1;
    size_t n_name = strlen(name);
    bool found = false;
    for (long at = 0; at < n && !found; at += (long)strlen(text + at) + 1)
        if (strncmp(text + at, name, n_name) == 0 && text[at + (long)n_name] == '=') {
            snprintf(ret, room, "%s", text + at + n_name + 1);
            found = true;
        }
    free(text);
    return found;
}

/* ---- the runtime ---- */

struct release {
    unsigned major, minor, patch;
    char text[64]; /* as it was written */
    char from[HALO_DOCTOR_PATH_BYTES];
};

/* 7.2.1, 7.2.1-81, 7.13.0a20260610 */
static bool parse_release(const char *text, struct release *ret)
{
    int n = sscanf(text, "%u.%u.%u", &ret->major, &ret->minor, &ret->patch);
    if (n == 2)
        ret->patch = 0;
    snprintf(ret->text, sizeof ret->text, "%.63s", text);
    return n >= 2 && ret->major < 100 && ret->minor < 100;
}

/* "libamdhip64.so.7.2.70201" is of ROCm 7.2.1; a distribution's "libamdhip64.so.5.2.21153" of some 5.2. */
static bool parse_library(const char *name, struct release *ret)
{
    unsigned major, minor, whole;
    const char *at = strstr(name, "libamdhip64.so.");
    if (!at || sscanf(at, "libamdhip64.so.%u.%u.%u", &major, &minor, &whole) != 3)
        return false;
    *ret = (struct release){.major = major, .minor = minor};
    if (whole / 10000 == major && whole / 100 % 100 == minor)
        ret->patch = whole % 100;
    snprintf(ret->text, sizeof ret->text, "%u.%u.%u", ret->major, ret->minor, ret->patch);
    return true;
}

/* The runtime in a folder of libraries: by the file that its package wrote, else by the library's own name. */
static bool look_in(struct halo_doctor_probe *probe, const char *dir, struct release *ret)
{
    char(*names)[HALO_DOCTOR_NAME_BYTES] = calloc(4096, sizeof *names), text[64];
    long n = names ? halo_doctor_probe_list(probe, names, 4096, "%s", dir) : 0;
    bool found = false, is_there = false;
    for (long i = 0; i < n && !found; i++) {
        is_there = is_there || strncmp(names[i], "libamdhip64.so", 14) == 0;
        found = parse_library(names[i], ret);
        if (found)
            snprintf(ret->from, sizeof ret->from, "%.400s/%s", dir, names[i]);
    }
    free(names);
    if (is_there && halo_doctor_probe_bytes(probe, text, sizeof text, "%s/../.info/version", dir) > 0) {
        struct release whole = {0};
        text[strcspn(text, "\n")] = '\0';
        if (parse_release(text, &whole)) {
            *ret = whole;
            snprintf(ret->from, sizeof ret->from, "%.400s/../.info/version", dir);
            found = true;
        }
    }
    return found;
}

/* A list of folders, one after the other between these separators. In place. */
static bool look_in_list(struct halo_doctor_probe *probe, char *list, const char *separators, struct release *ret)
{
    for (char *rest = list, *dir; (dir = strsep(&rest, separators));)
        if (dir[0] == '/' && look_in(probe, dir, ret))
            return true;
    return false;
}

/* Where the dynamic loader was told to look. */
static bool find_configured(struct halo_doctor_probe *probe, struct release *ret)
{
    char names[128][HALO_DOCTOR_NAME_BYTES], text[4096];
    if (variable(probe, "LD_LIBRARY_PATH", text, sizeof text) && look_in_list(probe, text, ":", ret))
        return true;
    long n = halo_doctor_probe_list(probe, names, 128, "/etc/ld.so.conf.d");
    for (long i = 0; i < n; i++)
        if (halo_doctor_probe_head(probe, text, sizeof text, "/etc/ld.so.conf.d/%s", names[i]) > 0 &&
            look_in_list(probe, text, " \t\n", ret))
            return true;
    return false;
}

static bool find_named(struct halo_doctor_probe *probe, struct release *ret)
{
    char link[HALO_DOCTOR_PATH_BYTES];
    bool found =
        parse_library(probe->hip_lib, ret) ||
        (halo_doctor_probe_link(probe, link, sizeof link, "%s", probe->hip_lib) == 0 && parse_library(link, ret));
    snprintf(ret->from, sizeof ret->from, "%s", probe->hip_lib);
    return found;
}

/* The one that was named, else the first of the places where it may be installed. */
static bool find_runtime(struct halo_doctor_probe *probe, struct release *ret)
{
    static const char *const dirs[] = {"/opt/rocm/lib", "/opt/rocm/lib64", "/usr/lib64", "/usr/lib/x86_64-linux-gnu",
                                       "/usr/lib",      "/usr/local/lib"};
    char names[64][HALO_DOCTOR_NAME_BYTES], dir[HALO_DOCTOR_PATH_BYTES];
    if (probe->hip_lib)
        return find_named(probe, ret);
    if (find_configured(probe, ret))
        return true;
    for (size_t i = 0; i < sizeof dirs / sizeof *dirs; i++)
        if (look_in(probe, dirs[i], ret))
            return true;
    long n = halo_doctor_probe_list(probe, names, 64, "/opt");
    for (long i = n - 1; i >= 0; i--) { /* the newest first */
        snprintf(dir, sizeof dir, "/opt/%s/lib", names[i]);
        if (strncmp(names[i], "rocm-", 5) == 0 && look_in(probe, dir, ret))
            return true;
    }
    return false;
}

static bool is_before(const struct release *r, unsigned major, unsigned minor, unsigned patch)
{
    if (r->major != major)
        return r->major < major;
    return r->minor != minor ? r->minor < minor : r->patch < patch;
}

/* The nightly builds of four days in which the runtime's own start crashed. */
static bool is_bad_nightly(const char *text)
{
    const char *date = strstr(text, "202606");
    return date && (strncmp(date, "20260609", 8) == 0 || (date[6] == '1' && date[7] >= '0' && date[7] <= '2'));
}

static void judge_runtime(struct halo_doctor_finding *finding, const struct release *r, bool has_cwsr)
{
    /* 7.9 and 7.10 were previews that came before 7.2; 7.11 has the fix. */
    bool is_fixed = !is_before(r, 7, 2, 0) && !(r->major == 7 && (r->minor == 9 || r->minor == 10));
    if (is_bad_nightly(r->text))
        halo_doctor_finding_say(finding, HALO_DOCTOR_FAIL,
                                "The nightly builds of 9 to 12 June 2026 crash during initialization: install a "
                                "released ROCm (7.2.1 or later) instead of %s.",
                                r->text);
    else if (is_before(r, 6, 4, 0))
        halo_doctor_finding_say(finding, HALO_DOCTOR_FAIL,
                                "ROCm %s does not know this chip: install 7.2.1 or later. Setting "
                                "HSA_OVERRIDE_GFX_VERSION instead runs another chip's kernels, which fault.",
                                r->text);
    else if (!is_fixed && has_cwsr)
        halo_doctor_finding_say(
            finding, HALO_DOCTOR_FAIL,
            "ROCm %s with this kernel crashes at the first allocation: the kernel has the larger "
            "register save area, but the runtime does not know about it (unless its packager patched it). "
            "Install ROCm 7.2.1 or later.",
            r->text);
    else if (!is_fixed || (is_before(r, 7, 2, 1) && !has_cwsr))
        halo_doctor_finding_say(finding, HALO_DOCTOR_WARN,
                                "ROCm %s and a kernel without the fix for the register save area: upgrade both (kernel "
                                "6.18.4, ROCm 7.2.1 or later).",
                                r->text);
    else if (r->major == 7 && r->minor == 14)
        halo_doctor_finding_say(finding, HALO_DOCTOR_WARN,
                                "ROCm %s keeps one CPU core busy forever after the first kernel (ROCr 1.21). It costs "
                                "power, not correctness; 7.2.x does not.",
                                r->text);
    else
        halo_doctor_finding_say(finding, HALO_DOCTOR_PASS, "ROCm %s knows this chip.", r->text);
}

void halo_doctor_look_runtime(struct halo_doctor_probe *probe, struct halo_doctor_finding *finding)
{
    struct halo_doctor_gpu gpu;
    struct release release = {0};
    uint64_t area;
    if (!halo_doctor_gpu_need_strix(probe, &gpu))
        return;
    if (find_runtime(probe, &release)) {
        halo_doctor_finding_read(finding, "%s: %s", release.from, release.text);
        judge_runtime(finding, &release, halo_doctor_number_of(gpu.properties, "cwsr_size", &area));
    } else if (probe->hip_lib) {
        halo_doctor_finding_read(finding, "%s", probe->hip_lib);
        halo_doctor_finding_say(finding, HALO_DOCTOR_SKIP, "The library's name does not contain its version.");
    } else {
        halo_doctor_finding_read(finding, "no libamdhip64.so where the loader looks, in /opt/rocm*/lib, /usr/lib");
        halo_doctor_finding_say(finding, HALO_DOCTOR_FAIL,
                                "No HIP runtime is installed: install ROCm 7.2.1 or later, or name one that is "
                                "elsewhere with --hip-lib (halod.conf: hip_lib).");
    }
}

/* ---- kernels ---- */

struct elf_head { /* as far as it is looked at */
    unsigned char ident[16];
    uint16_t type, machine;
    uint32_t version;
    uint64_t entry, program, section;
    uint32_t flags;
};
#define EM_AMDGPU 224
#define MACH_GFX1151 0x4a

static bool is_code_for(const char *bytes, const char *name)
{
    struct elf_head head;
    memcpy(&head, bytes, sizeof head);
    return memcmp(head.ident, "\177ELF\2", 5) == 0 && head.machine == EM_AMDGPU &&
           (strcmp(name, "gfx1151") != 0 || (head.flags & 0xff) == MACH_GFX1151);
}

static void judge_kernels(struct halo_doctor_probe *probe, const char *dir, const char *name)
{
    char bytes[sizeof(struct elf_head) + 1], manifest[16384], needle[64];
    struct halo_doctor_finding *finding = probe->finding;
    long n = halo_doctor_probe_head(probe, bytes, sizeof bytes, "%s/kernels.%s", dir, name);
    long n_manifest = halo_doctor_probe_head(probe, manifest, sizeof manifest, "%s/kernels.manifest", dir);
    snprintf(needle, sizeof needle, " kernels.%s", name);
    halo_doctor_finding_read(finding, "%s/kernels.%s: %s", dir, name, n < 0 ? strerror((int)-n) : "there");
    halo_doctor_finding_read(finding, "%s/kernels.manifest: %s", dir,
                             n_manifest < 0 ? strerror((int)-n_manifest) : "there");
    if (n < 0)
        halo_doctor_finding_say(finding, HALO_DOCTOR_FAIL,
                                "halod was built without kernels for %s, or they were not installed: build with "
                                "-Dhip_archs=%s (needs clang 19 or later), or set HALO_KERNEL_DIR to where they are.",
                                name, name);
    else if (n_manifest <= 0 || !strstr(manifest, needle))
        halo_doctor_finding_say(finding, HALO_DOCTOR_FAIL,
                                "The kernels for %s are not in their manifest and will not be loaded: install halod "
                                "anew.",
                                name);
    else if (n < (long)sizeof(struct elf_head) || !is_code_for(bytes, name))
        halo_doctor_finding_say(finding, HALO_DOCTOR_FAIL,
                                "kernels.%s is not code for %s: the runtime would call it an \"invalid device "
                                "function\". Install halod anew.",
                                name, name);
    else
        halo_doctor_finding_say(finding, HALO_DOCTOR_PASS, "The kernels for %s are installed.", name);
}

void halo_doctor_look_code_object(struct halo_doctor_probe *probe, struct halo_doctor_finding *finding)
{
    struct halo_doctor_gpu gpu;
    char dir[256];
    if (!halo_doctor_gpu_need(probe, &gpu))
        return;
    if (!gpu.name[0]) {
        halo_doctor_finding_say(finding, HALO_DOCTOR_SKIP, "The driver does not report the chip.");
        return;
    }
    if (!variable(probe, "HALO_KERNEL_DIR", dir, sizeof dir) || dir[0] != '/')
        snprintf(dir, sizeof dir, "%s", HALO_KERNEL_DIR);
    judge_kernels(probe, dir, gpu.name);
}

/* ---- the environment ---- */

struct suspect {
    const char *name, *value; /* value NULL: whatever it is, as long as it is set to something but 0 */
    enum halo_doctor_verdict verdict;
    const char *advice;
};

static const struct suspect suspects[] = {
    {"HSA_OVERRIDE_GFX_VERSION", NULL, HALO_DOCTOR_FAIL,
     "HSA_OVERRIDE_GFX_VERSION makes the runtime load another chip's kernels (\"invalid device function\", faults); "
     "this chip is supported without it"},
    {"HSA_ENABLE_SDMA", "0", HALO_DOCTOR_WARN,
     "HSA_ENABLE_SDMA=0 disables the copy engine and does not fix hanging uploads"},
    {"HSA_XNACK", "1", HALO_DOCTOR_WARN, "HSA_XNACK=1 asks for a feature that this chip does not have"},
    {"GGML_CUDA_ENABLE_UNIFIED_MEMORY", NULL, HALO_DOCTOR_WARN,
     "GGML_CUDA_ENABLE_UNIFIED_MEMORY gave wrong text in other engines (halod does not read it)"},
    {"HIP_LAUNCH_BLOCKING", NULL, HALO_DOCTOR_WARN, "HIP_LAUNCH_BLOCKING makes every launch synchronous"},
    {"AMD_SERIALIZE_KERNEL", NULL, HALO_DOCTOR_WARN, "AMD_SERIALIZE_KERNEL makes every launch synchronous"},
    {"AMD_LOG_LEVEL", NULL, HALO_DOCTOR_WARN, "AMD_LOG_LEVEL writes a line for every call"},
};

/* Told, not judged. */
static const char *const told[] = {"HSA_ENABLE_INTERRUPT", "GPU_MAX_HW_QUEUES", "GPU_PINNED_MIN_XFER_SIZE",
                                   "HSA_ENABLE_DEBUG"};

/* A list of numbers or of GPU-... names; anything else hides every GPU. */
static bool names_a_gpu(const char *value)
{
    return (*value >= '0' && *value <= '9') || strncmp(value, "GPU-", 4) == 0;
}

void halo_doctor_look_environment(struct halo_doctor_probe *probe, struct halo_doctor_finding *finding)
{
    static const char *const visible[] = {"HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"};
    char value[128], advice[sizeof finding->advice] = "";
    enum halo_doctor_verdict verdict = HALO_DOCTOR_PASS;
    size_t n = 0;
    struct stat st;
    if (halo_doctor_probe_stat(probe, &st, "/proc/self/environ") != 0) {
        halo_doctor_finding_say(finding, HALO_DOCTOR_SKIP, "There is no /proc to read.");
        return;
    }
    for (size_t i = 0; i < sizeof suspects / sizeof *suspects; i++) {
        const struct suspect *s = &suspects[i];
        if (!variable(probe, s->name, value, sizeof value) || !*value ||
            (s->value ? strcmp(value, s->value) != 0 : strcmp(value, "0") == 0))
            continue;
        halo_doctor_finding_read(finding, "%s=%s", s->name, value);
        n += (size_t)snprintf(advice + n, sizeof advice - n, "%s%s", n ? "; " : "", s->advice);
        n = n < sizeof advice ? n : sizeof advice - 1;
        verdict = verdict == HALO_DOCTOR_FAIL ? verdict : s->verdict;
    }
    for (size_t i = 0; i < sizeof visible / sizeof *visible; i++) {
        if (!variable(probe, visible[i], value, sizeof value))
            continue;
        halo_doctor_finding_read(finding, "%s=%s", visible[i], value);
        if (names_a_gpu(value))
            continue;
        n += (size_t)snprintf(advice + n, sizeof advice - n, "%s%s=%s hides every GPU", n ? "; " : "", visible[i],
                              value);
        n = n < sizeof advice ? n : sizeof advice - 1;
        verdict = HALO_DOCTOR_FAIL;
    }
    for (size_t i = 0; i < sizeof told / sizeof *told; i++)
        if (variable(probe, told[i], value, sizeof value))
            halo_doctor_finding_read(finding, "%s=%s", told[i], value);
    if (verdict == HALO_DOCTOR_PASS)
        halo_doctor_finding_say(finding, verdict, "Nothing is set that hides or breaks something.");
    else
        halo_doctor_finding_say(finding, verdict, "Remove from the environment: %s.", advice);
}
