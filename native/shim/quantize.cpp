// Requantising GGUF files through the library's own quantiser.

#include "shim_internal.h"

#include <cstring>

namespace {

struct FileType {
    const char * name;
    llama_ftype ftype;
};

const FileType kFileTypes[] = {
    {"F32", LLAMA_FTYPE_ALL_F32},           {"F16", LLAMA_FTYPE_MOSTLY_F16},
    {"BF16", LLAMA_FTYPE_MOSTLY_BF16},      {"Q4_0", LLAMA_FTYPE_MOSTLY_Q4_0},
    {"Q4_1", LLAMA_FTYPE_MOSTLY_Q4_1},      {"Q5_0", LLAMA_FTYPE_MOSTLY_Q5_0},
    {"Q5_1", LLAMA_FTYPE_MOSTLY_Q5_1},      {"Q8_0", LLAMA_FTYPE_MOSTLY_Q8_0},
    {"Q2_K", LLAMA_FTYPE_MOSTLY_Q2_K},      {"Q2_K_S", LLAMA_FTYPE_MOSTLY_Q2_K_S},
    {"Q3_K_S", LLAMA_FTYPE_MOSTLY_Q3_K_S},  {"Q3_K_M", LLAMA_FTYPE_MOSTLY_Q3_K_M},
    {"Q3_K_L", LLAMA_FTYPE_MOSTLY_Q3_K_L},  {"Q4_K_S", LLAMA_FTYPE_MOSTLY_Q4_K_S},
    {"Q4_K_M", LLAMA_FTYPE_MOSTLY_Q4_K_M},  {"Q5_K_S", LLAMA_FTYPE_MOSTLY_Q5_K_S},
    {"Q5_K_M", LLAMA_FTYPE_MOSTLY_Q5_K_M},  {"Q6_K", LLAMA_FTYPE_MOSTLY_Q6_K},
    {"IQ4_NL", LLAMA_FTYPE_MOSTLY_IQ4_NL},  {"IQ4_XS", LLAMA_FTYPE_MOSTLY_IQ4_XS},
};

llama_ftype file_type(const char * name) {
    std::string known;
    for (const FileType & entry : kFileTypes) {
        if (strcmp(entry.name, name) == 0) {
            return entry.ftype;
        }
        known += known.empty() ? entry.name : std::string(", ") + entry.name;
    }
    power::fail(POWER_INVALID_ARGUMENT, "file type '%s' is not known, expected one of %s", name, known.c_str());
}

}  // namespace

extern "C" {

power_status power_quantize(const char * path_in, const char * path_out, const char * ftype_name, int32_t threads,
                            int32_t pure, power_error * err) {
    return power::guarded(err, [&] {
        power::check_not_null(path_in, "path_in");
        power::check_not_null(path_out, "path_out");
        power::check_not_null(ftype_name, "ftype_name");
        if (strcmp(path_in, path_out) == 0) {
            power::fail(POWER_INVALID_ARGUMENT, "'%s' is both input and output", path_in);
        }
        llama_model_quantize_params params = llama_model_quantize_default_params();
        params.ftype = file_type(ftype_name);
        params.nthread = threads;
        params.pure = pure != 0;
        params.allow_requantize = true;
        if (llama_model_quantize(path_in, path_out, &params) != 0) {
            power::fail(POWER_LOAD_FAILED, "cannot quantise '%s' to '%s' as %s", path_in, path_out, ftype_name);
        }
    });
}

}  // extern "C"
