/* An OpenCL layer that presents Intel's OpenCL runtime for processors as an Intel GPU.
 *
 * OpenVINO's GPU plugin takes it for one, so that the real plugin compiles and runs models where
 * there is no GPU: its fusions, layouts, names, counters, f16 and errors. Its times mean nothing.
 * The Khronos loader puts a layer between a program and a runtime (OPENCL_LAYERS); `with_gpu`
 * builds it and sets the environment.
 *
 * Environment, all optional, read at each query, so that a test may change it:
 *   GPU_LAYER_COUNT       number of equal GPUs (1)
 *   GPU_LAYER_MEMORY      bytes of a GPU (4 GiB)
 *   GPU_LAYER_ALLOCATION  bytes of its largest allocation (half of the memory)
 *   GPU_LAYER_DISCRETE    1 for a card with memory of its own
 *   GPU_LAYER_CACHE       folder for compiled programs: compiling takes nearly all of the time
 *   GPU_LAYER_TRACE       1 prints what the runtime refuses
 *
 * Each duty below states the failure that it answers.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The few names of the OpenCL headers that are needed, which PyPI does not have. A dispatch table
 * is an array of functions, whose order the ABI fixes (`cl_icd_dispatch` in CL/cl_icd.h). */
enum {
    GET_DEVICE_IDS = 2,
    GET_DEVICE_INFO = 3,
    CREATE_PROGRAM_WITH_SOURCE = 26,
    CREATE_PROGRAM_WITH_BINARY = 27,
    RETAIN_PROGRAM = 28,
    RELEASE_PROGRAM = 29,
    BUILD_PROGRAM = 30,
    GET_PROGRAM_INFO = 32,
    GET_PROGRAM_BUILD_INFO = 33,
    CREATE_KERNELS_IN_PROGRAM = 35,
    ENQUEUE_KERNEL = 59,
    TABLE_SIZE = 149,
};
enum {
    SUCCESS = 0,
    DEVICE_NOT_FOUND = -1,
    INVALID_VALUE = -30,
    INVALID_WORK_GROUP_SIZE = -54,
    LAYER_API_VERSION = 0x4240,
    LAYER_NAME = 0x4241,
    API_VERSION_100 = 100,
    TYPE_CPU = 1 << 1,
    TYPE_GPU = 1 << 2,
    TYPE_ACCELERATOR = 1 << 3,
    PROGRAM_BINARY_SIZES = 0x1165,
    PROGRAM_BINARIES = 0x1166,
    PROGRAM_BUILD_LOG = 0x1183,
};
typedef int32_t Status;
typedef struct Object *Handle; /* a platform, device, context, program, kernel, queue or event */

typedef Status GetDeviceIds(Handle, uint64_t, uint32_t, Handle *, uint32_t *);
typedef Status GetInfo(Handle, uint32_t, size_t, void *, size_t *);
typedef Status GetBuildInfo(Handle, Handle, uint32_t, size_t, void *, size_t *);
typedef Handle CreateWithSource(Handle, uint32_t, const char **, const size_t *, Status *);
typedef Handle CreateWithBinary(Handle, uint32_t, const Handle *, const size_t *,
                                const unsigned char **, Status *, Status *);
typedef Status Build(Handle, uint32_t, const Handle *, const char *, void *, void *);
typedef Status Count(Handle);
typedef Status CreateKernels(Handle, uint32_t, Handle *, uint32_t *);
typedef Status Enqueue(Handle, Handle, uint32_t, const size_t *, const size_t *, const size_t *,
                       uint32_t, const Handle *, Handle *);

static void *const *runtime;    /* the functions of the runtime */
static void *table[TABLE_SIZE]; /* the same, some of them ours */

static uint64_t read_number(const char *name, uint64_t otherwise) {
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 0) : otherwise;
}

/* ---- Queries of the device -------------------------------------------------------------------
 * The plugin takes devices of type GPU alone, and asks Intel's own queries, which the runtime for
 * processors does not answer. IP version 12.0.0 (Xe-LP, in the packed form) has no matrix units,
 * so that oneDNN's kernels, written for real GPUs, stay out; of a version that it does not know
 * the plugin compiles a probe, reads its GPU binary, fails, and drops the device. */
static Status answer(const void *data, size_t size, size_t room, void *value, size_t *written) {
    if (value) {
        if (room < size) return INVALID_VALUE;
        memcpy(value, data, size);
    }
    if (written) *written = size;
    return SUCCESS;
}
#define ANSWER(type, number)                                     \
    do {                                                         \
        type one = (type)(number);                               \
        return answer(&one, sizeof one, room, value, written);   \
    } while (0)

static Status get_device_info(Handle device, uint32_t query, size_t room, void *value,
                              size_t *written) {
    static const char name[] = "OpenCL layer on a processor";
    static const size_t sub_groups[] = {8, 16, 32};
    uint64_t memory = read_number("GPU_LAYER_MEMORY", 4ull << 30);
    switch (query) {
    case 0x1000 /* TYPE */: ANSWER(uint64_t, TYPE_GPU);
    case 0x1002 /* MAX_COMPUTE_UNITS */: ANSWER(uint32_t, 24);
    case 0x1004 /* MAX_WORK_GROUP_SIZE */: ANSWER(size_t, 256);
    case 0x100C /* MAX_CLOCK_FREQUENCY */: ANSWER(uint32_t, 1000);
    case 0x1010 /* MAX_MEM_ALLOC_SIZE */:
        ANSWER(uint64_t, read_number("GPU_LAYER_ALLOCATION", memory / 2));
    case 0x101F /* GLOBAL_MEM_SIZE */: ANSWER(uint64_t, memory);
    case 0x1023 /* LOCAL_MEM_SIZE */: ANSWER(uint64_t, 64 << 10);
    case 0x102B /* NAME */: return answer(name, sizeof name, room, value, written);
    case 0x1035 /* HOST_UNIFIED_MEMORY */:
        ANSWER(uint32_t, !read_number("GPU_LAYER_DISCRETE", 0));
    case 0x1043 /* PARTITION_MAX_SUB_DEVICES */: ANSWER(uint32_t, 0);
    case 0x4108 /* SUB_GROUP_SIZES_INTEL */:
        return answer(sub_groups, sizeof sub_groups, room, value, written);
    case 0x4250 /* IP_VERSION_INTEL */: ANSWER(uint32_t, 12u << 22);
    case 0x4251 /* ID_INTEL */: ANSWER(uint32_t, 0x9A49);
    case 0x4252 /* NUM_SLICES_INTEL */: ANSWER(uint32_t, 1);
    case 0x4253 /* NUM_SUB_SLICES_PER_SLICE_INTEL */: ANSWER(uint32_t, 3);
    case 0x4254 /* NUM_EUS_PER_SUB_SLICE_INTEL */: ANSWER(uint32_t, 8);
    case 0x4255 /* NUM_THREADS_PER_EU_INTEL */: ANSWER(uint32_t, 7);
    case 0x4256 /* FEATURE_CAPABILITIES_INTEL: no DP4A, no DPAS */: ANSWER(uint64_t, 0);
    }
    Status bad = ((GetInfo *)runtime[GET_DEVICE_INFO])(device, query, room, value, written);
    if (bad && read_number("GPU_LAYER_TRACE", 0))
        fprintf(stderr, "gpu layer: query 0x%x of the device: %d\n", query, bad);
    return bad;
}

/* Several GPUs are the same device several times: the plugin tells them apart by position. */
static Status get_device_ids(Handle platform, uint64_t type, uint32_t room, Handle *devices,
                             uint32_t *count) {
    if (type == TYPE_CPU || type == TYPE_ACCELERATOR) return DEVICE_NOT_FOUND;
    Handle device = NULL;
    Status bad =
        ((GetDeviceIds *)runtime[GET_DEVICE_IDS])(platform, 0xFFFFFFFF, 1, &device, NULL);
    if (bad) return bad;
    uint32_t n = (uint32_t)read_number("GPU_LAYER_COUNT", 1);
    if (count) *count = n;
    for (uint32_t i = 0; devices && i < room && i < n; i++) devices[i] = device;
    return SUCCESS;
}

/* ---- Sources and launches --------------------------------------------------------------------
 * A GPU forms sub-groups along the linear local id, the runtime for processors along the first
 * dimension alone: of a local size of (1, 1, 16) it makes 16 sub-groups of one, and 15 of 16
 * outputs are zero. So kernels are launched with each work group laid along the first dimension.
 * The sizes they were meant to have travel in the third global offset, which the plugin does not
 * use, and a prelude gives the functions that ask for indices their answers from it. */
static const char prelude[] =
    "static inline size_t layer_size(uint d) {\n"
    "  size_t sizes = get_global_offset(2);\n"
    "  return d > 2 ? 1 : sizes >> 16 * d & 0xffff;\n"
    "}\n"
    "static inline size_t layer_id(uint d) {\n"
    "  size_t id = get_local_id(0), x = layer_size(0), y = layer_size(1);\n"
    "  return d == 0 ? id % x : d == 1 ? id / x % y : d == 2 ? id / x / y : 0;\n"
    "}\n"
    "#define get_local_size(d) layer_size(d)\n"
    "#define get_enqueued_local_size(d) layer_size(d)\n"
    "#define get_local_id(d) layer_id(d)\n"
    "#define get_global_id(d) (get_group_id(d) * layer_size(d) + layer_id(d))\n"
    "#define get_global_size(d) (get_num_groups(d) * layer_size(d))\n"
    "#define get_global_offset(d) ((size_t)0)\n"
    "#define reqd_work_group_size(a, b, c) reqd_work_group_size((a) * (b) * (c), 1, 1)\n"
    "#define work_group_size_hint(a, b, c) work_group_size_hint((a) * (b) * (c), 1, 1)\n"
    /* The runtime's native_ functions have 12 bits, those of a GPU almost all of 24: softmax is
     * 1.4e-4 off with them, above the tolerance of f32. */
    "#define native_exp(x) exp(x)\n"
    "#define native_exp2(x) exp2(x)\n"
    "#define native_exp10(x) exp10(x)\n"
    "#define native_log(x) log(x)\n"
    "#define native_log2(x) log2(x)\n"
    "#define native_log10(x) log10(x)\n"
    "#define native_sqrt(x) sqrt(x)\n"
    "#define native_rsqrt(x) rsqrt(x)\n"
    "#define native_sin(x) sin(x)\n"
    "#define native_cos(x) cos(x)\n"
    "#define native_tan(x) tan(x)\n"
    "#define native_powr(x, y) powr(x, y)\n"
    "#define native_recip(x) (1 / (x))\n"
    "#define native_divide(x, y) ((x) / (y))\n";

static Status enqueue_kernel(Handle queue, Handle kernel, uint32_t dimensions,
                             const size_t *offset, const size_t *global, const size_t *local,
                             uint32_t n_waits, const Handle *waits, Handle *event) {
    (void)offset;
    size_t groups[3] = {1, 1, 1}, size[3] = {1, 1, 1};
    for (uint32_t i = 0; i < dimensions && i < 3; i++) {
        if (local && local[i]) size[i] = local[i];
        if (global[i] % size[i]) return INVALID_WORK_GROUP_SIZE;
        groups[i] = global[i] / size[i];
    }
    size_t group = size[0] * size[1] * size[2];
    size_t sizes[3] = {0, 0, size[0] | size[1] << 16 | size[2] << 32};
    size_t wide[3] = {groups[0] * group, groups[1], groups[2]}, flat[3] = {group, 1, 1};
    return ((Enqueue *)runtime[ENQUEUE_KERNEL])(queue, kernel, 3, sizes, wide, flat, n_waits,
                                                waits, event);
}

/* ---- Programs --------------------------------------------------------------------------------
 * Compiling for the processor takes seconds a program, loading what was compiled milliseconds. A
 * program is compiled when its options are known, and cannot become another one: it keeps its text
 * until then, and a `stand_in` that was loaded answers for it. Entries are never freed, as no test
 * makes many. */
typedef struct Program {
    Handle handle, context, stand_in;
    char *text;
    struct Program *next;
} Program;
static Program *programs;
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;

static Program *find_program(Handle handle) {
    pthread_mutex_lock(&guard);
    Program *found = programs;
    while (found && found->handle != handle) found = found->next;
    pthread_mutex_unlock(&guard);
    return found;
}

static Handle stand_in(Handle program) {
    Program *found = find_program(program);
    return found && found->stand_in ? found->stand_in : program;
}

static char *join_texts(uint32_t n, const char **texts, const size_t *sizes) {
    size_t total = sizeof prelude;
    for (uint32_t i = 0; i < n; i++) total += sizes && sizes[i] ? sizes[i] : strlen(texts[i]);
    char *joined = calloc(1, total), *end = stpcpy(joined, prelude);
    for (uint32_t i = 0; i < n; i++)
        end = mempcpy(end, texts[i], sizes && sizes[i] ? sizes[i] : strlen(texts[i]));
    return joined;
}

static Handle create_program_with_source(Handle context, uint32_t n, const char **texts,
                                         const size_t *sizes, Status *bad) {
    Program *made = calloc(1, sizeof *made);
    made->context = context;
    made->text = join_texts(n, texts, sizes);
    const char *text = made->text;
    made->handle = ((CreateWithSource *)runtime[CREATE_PROGRAM_WITH_SOURCE])(context, 1, &text,
                                                                             NULL, bad);
    pthread_mutex_lock(&guard);
    made->next = programs; /* before those of the same address, which were released */
    programs = made;
    pthread_mutex_unlock(&guard);
    return made->handle;
}

/* The compiler for processors refuses options of the one for GPUs, which begin so. */
static char *keep_known_options(const char *options) {
    char *kept = calloc(1, strlen(options) + 2), *copy = strdup(options), *rest = copy, *word;
    while ((word = strsep(&rest, " "))) {
        if (!*word || !strncmp(word, "-cl-intel-", 10)) continue;
        strcat(strcat(kept, word), " ");
    }
    free(copy);
    return kept;
}

static uint64_t hash(uint64_t seed, const char *text) { /* FNV-1a */
    for (; *text; text++) seed = (seed ^ (unsigned char)*text) * 0x100000001B3;
    return seed;
}

static Handle load_program(const char *path, Handle context, Handle device) {
    FILE *file = fopen(path, "rb");
    if (!file) return NULL;
    fseek(file, 0, SEEK_END);
    size_t size = (size_t)ftell(file);
    rewind(file);
    unsigned char *binary = malloc(size);
    Status bad = fread(binary, 1, size, file) != size, status;
    fclose(file);
    const unsigned char *given = binary;
    Handle program = bad ? NULL
                         : ((CreateWithBinary *)runtime[CREATE_PROGRAM_WITH_BINARY])(
                               context, 1, &device, &size, &given, &status, &bad);
    free(binary);
    return bad ? NULL : program;
}

static void save_program(const char *path, Handle program) {
    size_t size = 0;
    GetInfo *get_info = runtime[GET_PROGRAM_INFO];
    if (get_info(program, PROGRAM_BINARY_SIZES, sizeof size, &size, NULL) || !size) return;
    unsigned char *binary = malloc(size);
    char partial[4200]; /* two processes may write at a time: each renames a file of its own */
    snprintf(partial, sizeof partial, "%s.%d", path, getpid());
    FILE *file = get_info(program, PROGRAM_BINARIES, sizeof binary, &binary, NULL)
                     ? NULL
                     : fopen(partial, "wb");
    if (file) {
        size_t written = fwrite(binary, 1, size, file);
        if (fclose(file) || written != size || rename(partial, path)) unlink(partial);
    }
    free(binary);
}

static Status compile(Handle program, uint32_t n, const Handle *devices, const char *options) {
    Status bad = ((Build *)runtime[BUILD_PROGRAM])(program, n, devices, options, NULL, NULL);
    if (bad && n && read_number("GPU_LAYER_TRACE", 0)) {
        static char log[1 << 16];
        ((GetBuildInfo *)runtime[GET_PROGRAM_BUILD_INFO])(program, devices[0], PROGRAM_BUILD_LOG,
                                                          sizeof log, log, NULL);
        fprintf(stderr, "gpu layer: compiling with %s: %d\n%s\n", options, bad, log);
    }
    return bad;
}

static Status build_program(Handle program, uint32_t n, const Handle *devices,
                            const char *options, void *done, void *data) {
    (void)done, (void)data; /* the plugin waits */
    char *kept = keep_known_options(options ? options : "");
    const char *folder = getenv("GPU_LAYER_CACHE");
    Program *known = folder && *folder && n == 1 ? find_program(program) : NULL;
    Status bad;
    if (known) {
        char path[4096];
        uint64_t key = hash(hash(0xCBF29CE484222325, known->text), kept);
        snprintf(path, sizeof path, "%s/%016llx", folder, (unsigned long long)key);
        Handle loaded = load_program(path, known->context, devices[0]);
        if (loaded && !compile(loaded, n, devices, kept)) {
            known->stand_in = loaded;
            bad = SUCCESS;
        } else {
            bad = compile(program, n, devices, kept);
            if (!bad) save_program(path, program);
        }
    } else {
        bad = compile(program, n, devices, kept);
    }
    free(kept);
    return bad;
}

static Status get_program_info(Handle program, uint32_t query, size_t room, void *value,
                               size_t *written) {
    return ((GetInfo *)runtime[GET_PROGRAM_INFO])(stand_in(program), query, room, value, written);
}

static Status get_program_build_info(Handle program, Handle device, uint32_t query, size_t room,
                                     void *value, size_t *written) {
    return ((GetBuildInfo *)runtime[GET_PROGRAM_BUILD_INFO])(stand_in(program), device, query,
                                                             room, value, written);
}

/* On a GPU a kernel keeps its program alive. This runtime refuses a kernel whose program was
 * released (CL_INVALID_PROGRAM, -44): the program stays, which leaks it on purpose. */
static Status create_kernels(Handle program, uint32_t n, Handle *kernels, uint32_t *count) {
    Handle holds = stand_in(program);
    Status bad = ((CreateKernels *)runtime[CREATE_KERNELS_IN_PROGRAM])(holds, n, kernels, count);
    if (!bad && kernels) ((Count *)runtime[RETAIN_PROGRAM])(holds);
    return bad;
}

/* ---- The loader's side -----------------------------------------------------------------------*/
Status clGetLayerInfo(uint32_t query, size_t room, void *value, size_t *written) {
    static const char name[] = "placement_gym's GPU on a processor";
    if (query == LAYER_API_VERSION) ANSWER(uint32_t, API_VERSION_100);
    if (query == LAYER_NAME) return answer(name, sizeof name, room, value, written);
    return INVALID_VALUE;
}

Status clInitLayer(uint32_t n, void *const *next, uint32_t *n_made, void *const **made) {
    if (!next || !n_made || !made || n < TABLE_SIZE) return INVALID_VALUE;
    runtime = next;
    memcpy(table, next, sizeof table);
    table[GET_DEVICE_IDS] = get_device_ids;
    table[GET_DEVICE_INFO] = get_device_info;
    table[CREATE_PROGRAM_WITH_SOURCE] = create_program_with_source;
    table[BUILD_PROGRAM] = build_program;
    table[GET_PROGRAM_INFO] = get_program_info;
    table[GET_PROGRAM_BUILD_INFO] = get_program_build_info;
    table[CREATE_KERNELS_IN_PROGRAM] = create_kernels;
    table[ENQUEUE_KERNEL] = enqueue_kernel;
    *n_made = TABLE_SIZE;
    *made = table;
    return SUCCESS;
}

/* Loaders since 2024 refuse a layer without these two. */
Status clInitLayerWithProperties(uint32_t n, void *const *next, uint32_t *n_made,
                                 void *const **made, const uint64_t *properties) {
    (void)properties;
    return clInitLayer(n, next, n_made, made);
}

Status clDeinitLayer(void) { return SUCCESS; }
