// Loading a model and reading its facts.

#include "placement.h"
#include "shim_internal.h"

#include "llama-model.h"

#include <cstring>

namespace {

struct ProgressForward {
    power_progress callback;
    void * user_data;
};

bool forward_progress(float fraction, void * user_data) {
    const auto * forward = (const ProgressForward *) user_data;
    return forward->callback(fraction, forward->user_data) != 0;
}

llama_load_mode load_mode(const power_model_params & params) {
    if (params.use_mmap != 0) {
        return params.use_mlock != 0 ? LLAMA_LOAD_MODE_MMAP_MLOCK : LLAMA_LOAD_MODE_MMAP;
    }
    return params.use_mlock != 0 ? LLAMA_LOAD_MODE_MLOCK : LLAMA_LOAD_MODE_NONE;
}

// The key alone proves nothing: the tensors must be there.
bool has_nextn_block(const llama_model * model) {
    const size_t first = (size_t) llama_model_n_layer(model);
    return llama_model_n_layer_nextn(model) > 0 && first < model->layers.size() &&
           model->layers[first].nextn.eh_proj != nullptr;
}

std::string meta_text(const llama_model * model, const char * key) {
    const int32_t length = llama_model_meta_val_str(model, key, nullptr, 0);
    if (length < 0) {
        power::fail(POWER_UNSUPPORTED, "the model has no metadata key '%s'", key);
    }
    std::string text((size_t) length + 1, '\0');
    llama_model_meta_val_str(model, key, &text[0], text.size());
    text.resize((size_t) length);
    return text;
}

std::string device_names(const llama_model * model) {
    std::string names;
    for (const llama_device & device : model->devices) {
        names += std::string(names.empty() ? "" : " ") + ggml_backend_dev_name(device.dev);
    }
    return names;
}

void give_text(const std::string & text, char * buffer, uint32_t capacity, uint32_t * length) {
    power::check_not_null(length, "length");
    *length = (uint32_t) text.size();
    power::copy_text(buffer, capacity, text);
}

}  // namespace

namespace power {

// Block drafters take the concatenated rows of their target layers; the library's public getter names another width.
int32_t embedding_row_width(const power_model * model) {
    return model->architecture == "dflash" ? (int32_t) model->llama->hparams.n_embd_inp_enc()
                                           : llama_model_n_embd_inp(model->llama);
}

void model_release(power_model * model) {
    if (--model->references == 0) {
        llama_model_free(model->llama);
        delete model;
    }
}

}  // namespace power

extern "C" {

power_status power_model_open(const char * path, const power_model_params * params, power_model ** out,
                              power_error * err) {
    return power::guarded(err, [&] {
        power::check_not_null(path, "path");
        power::check_not_null(out, "out");
        power::check_size(params, "power_model_params");
        *out = nullptr;
        ProgressForward forward{params->progress, params->progress_user_data};
        llama_model_params native = llama_model_default_params();
        native.n_gpu_layers = params->gpu_layers;
        power::Placement placement(*params);
        placement.apply(native);
        native.load_mode = load_mode(*params);
        native.use_extra_bufts = params->repack_weights != 0;
        native.load_mtp = params->load_nextn != 0;
        if (params->progress != nullptr) {
            native.progress_callback = forward_progress;
            native.progress_callback_user_data = &forward;
        }
        llama_model * loaded = llama_model_load_from_file(path, native);
        if (loaded == nullptr) {
            power::fail(POWER_LOAD_FAILED, "cannot load the model '%s'", path);
        }
        auto * model = new power_model();
        model->llama = loaded;
        model->vocab = llama_model_get_vocab(loaded);
        model->architecture = loaded->arch_name();
        model->repacked = params->repack_weights != 0;
        model->nextn_loaded = params->load_nextn != 0 && has_nextn_block(loaded);
        *out = model;
    });
}

void power_model_close(power_model * model) {
    if (model != nullptr) {
        power::model_release(model);
    }
}

power_status power_model_info_get(const power_model * model, power_model_info * info, power_error * err) {
    return power::guarded(err, [&] {
        power::check_not_null(model, "model");
        power::check_size(info, "power_model_info");
        const llama_model * llama = model->llama;
        info->n_vocab = llama_vocab_n_tokens(model->vocab);
        info->n_embd = llama_model_n_embd(llama);
        info->n_embd_in = power::embedding_row_width(model);
        info->n_layer = llama_model_n_layer(llama);
        info->n_layer_nextn = model->nextn_loaded ? llama_model_n_layer_nextn(llama) : 0;
        info->n_ctx_train = llama_model_n_ctx_train(llama);
        info->n_swa = llama_model_n_swa(llama);
        info->recurrent = llama_model_is_recurrent(llama) || llama_model_is_hybrid(llama) ? 1 : 0;
        info->add_bos = llama_vocab_get_add_bos(model->vocab) ? 1 : 0;
        info->bos = llama_vocab_bos(model->vocab);
        info->eos = llama_vocab_eos(model->vocab);
        info->mask = llama_vocab_mask(model->vocab);
        info->has_layer_taps = power::exposes_layer_inputs(model->architecture) ? 1 : 0;
        info->has_nextn_rows = power::exposes_nextn_rows(model->architecture) ? 1 : 0;
        info->size_bytes = llama_model_size(llama);
        power::copy_text(info->architecture, sizeof(info->architecture), model->architecture);
        char description[sizeof(info->description)] = {};
        llama_model_desc(llama, description, sizeof(description));
        power::copy_text(info->description, sizeof(info->description), description);
        power::copy_text(info->devices, sizeof(info->devices), device_names(llama));
    });
}

power_status power_model_meta(const power_model * model, const char * key, char * buffer, uint32_t capacity,
                              uint32_t * length, power_error * err) {
    return power::guarded(err, [&] {
        power::check_not_null(model, "model");
        power::check_not_null(key, "key");
        give_text(meta_text(model->llama, key), buffer, capacity, length);
    });
}

power_status power_model_chat_template(const power_model * model, char * buffer, uint32_t capacity, uint32_t * length,
                                       power_error * err) {
    return power::guarded(err, [&] {
        power::check_not_null(model, "model");
        const char * text = llama_model_chat_template(model->llama, nullptr);
        if (text == nullptr) {
            power::fail(POWER_UNSUPPORTED, "the model has no chat template");
        }
        give_text(text, buffer, capacity, length);
    });
}

}  // extern "C"
