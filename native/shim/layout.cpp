// sizeof and offsetof of every structure that crosses, as this compiler laid them out.

#include "shim_internal.h"

#include <cstddef>
#include <cstring>
#include <vector>

namespace {

struct Layout {
    const char * name;
    uint32_t size;
    std::vector<uint32_t> offsets;
};

#define AT(member) (uint32_t) offsetof(S, member)

template <typename S>
Layout layout(const char * name, std::vector<uint32_t> offsets) {
    return Layout{name, (uint32_t) sizeof(S), std::move(offsets)};
}

Layout error_layout() {
    using S = power_error;
    return layout<S>("power_error", {AT(size), AT(status), AT(text), AT(log_tail)});
}

Layout build_info_layout() {
    using S = power_build_info;
    return layout<S>("power_build_info",
                     {AT(size), AT(abi_version), AT(gpu_offload), AT(reserved), AT(llama_commit), AT(llama_version),
                      AT(content_key), AT(compiler), AT(cmake_args), AT(cpu_features)});
}

Layout device_info_layout() {
    using S = power_device_info;
    return layout<S>("power_device_info", {AT(size), AT(type), AT(memory_free_bytes), AT(memory_total_bytes),
                                           AT(compute_major), AT(compute_minor), AT(name), AT(description),
                                           AT(bus_id)});
}

Layout cuda_info_layout() {
    using S = power_cuda_info;
    return layout<S>("power_cuda_info", {AT(size), AT(compiled_version), AT(runtime_version), AT(driver_version),
                                         AT(device_count), AT(error_code), AT(error_name), AT(error_text)});
}

Layout model_params_layout() {
    using S = power_model_params;
    return layout<S>("power_model_params", {AT(size), AT(gpu_layers), AT(load_nextn), AT(repack_weights), AT(use_mmap),
                                            AT(use_mlock), AT(progress), AT(progress_user_data), AT(device),
                                            AT(placements)});
}

Layout model_info_layout() {
    using S = power_model_info;
    return layout<S>("power_model_info",
                     {AT(size), AT(n_vocab), AT(n_embd), AT(n_layer), AT(n_layer_nextn), AT(n_ctx_train), AT(n_swa),
                      AT(recurrent), AT(add_bos), AT(bos), AT(eos), AT(mask), AT(has_layer_taps),
                      AT(has_nextn_rows), AT(n_embd_in), AT(reserved), AT(size_bytes), AT(architecture),
                      AT(description), AT(devices)});
}

Layout context_params_layout() {
    using S = power_context_params;
    return layout<S>("power_context_params",
                     {AT(size), AT(kind), AT(ctx_tokens), AT(batch_rows), AT(physical_rows), AT(sequences),
                      AT(snapshots), AT(threads), AT(flash_attention), AT(output_rows), AT(causal), AT(rows_threads),
                      AT(other), AT(kv_type), AT(processors), AT(processor_count), AT(head_rows), AT(head_tokens)});
}

Layout context_info_layout() {
    using S = power_context_info;
    return layout<S>("power_context_info", {AT(size), AT(ctx_tokens), AT(batch_rows), AT(physical_rows), AT(sequences),
                                            AT(snapshots), AT(threads), AT(flash_attention), AT(exact),
                                            AT(rows_threads), AT(memory_bytes), AT(head_bytes)});
}

Layout rows_layout() {
    using S = power_rows;
    return layout<S>("power_rows", {AT(size), AT(n_rows), AT(tokens), AT(embeddings), AT(states), AT(positions),
                                    AT(seq_ids), AT(wants_logits)});
}

Layout sequence_info_layout() {
    using S = power_sequence_info;
    return layout<S>("power_sequence_info", {AT(size), AT(stale), AT(length_tokens), AT(expected_tokens), AT(first_pos),
                                             AT(rollback_rows)});
}

Layout chain_layout() {
    using S = power_chain;
    return layout<S>("power_chain",
                     {AT(size), AT(seq_id), AT(first_pos), AT(token), AT(max_tokens), AT(heads), AT(p_min),
                      AT(reserved), AT(state), AT(out_tokens), AT(out_probabilities), AT(out_count), AT(reserved2)});
}

Layout block_layout() {
    using S = power_block;
    return layout<S>("power_block",
                     {AT(size), AT(choice), AT(confidence), AT(seq_id), AT(first_pos), AT(token), AT(fill_token),
                      AT(n_rows), AT(first_row), AT(max_tokens), AT(lattice_width), AT(p_min), AT(out_tokens),
                      AT(out_confidences), AT(out_count), AT(reserved)});
}

Layout round_layout() {
    using S = power_round;
    return layout<S>("power_round",
                     {AT(size), AT(seq_id), AT(first_pos), AT(anchor), AT(max_tokens), AT(room_tokens),
                      AT(min_tokens), AT(p_min), AT(slice_rows), AT(fill_slices), AT(ctx_tokens), AT(features_row),
                      AT(drafter), AT(chain), AT(block), AT(sampler), AT(layers), AT(n_layers), AT(n_ends), AT(ends),
                      AT(replacements), AT(n_replacements), AT(reserved), AT(tokens), AT(emitted), AT(features),
                      AT(drafted), AT(accepted), AT(emitted_count), AT(evaluated_rows), AT(target_calls), AT(step),
                      AT(verified), AT(fed), AT(draft_ns), AT(verify_ns), AT(choose_ns)});
}

Layout sampler_params_layout() {
    using S = power_sampler_params;
    return layout<S>("power_sampler_params",
                     {AT(size), AT(temperature), AT(top_k), AT(top_p), AT(min_p), AT(typical_p), AT(repeat_penalty),
                      AT(frequency_penalty), AT(presence_penalty), AT(repeat_last_n), AT(dry_multiplier), AT(dry_base),
                      AT(dry_allowed_length), AT(dry_penalty_last_n), AT(xtc_probability), AT(xtc_threshold), AT(seed),
                      AT(n_biases), AT(bias_tokens), AT(bias_values), AT(dry_breakers), AT(grammar),
                      AT(dry_breakers_bytes), AT(grammar_bytes)});
}

#undef AT

const std::vector<Layout> & layouts() {
    static const std::vector<Layout> table = {
        error_layout(),          build_info_layout(),    device_info_layout(), cuda_info_layout(),
        model_params_layout(),   model_info_layout(),    context_params_layout(), context_info_layout(),
        rows_layout(),           sequence_info_layout(), chain_layout(),       block_layout(),
        round_layout(),          sampler_params_layout(),
    };
    return table;
}

}  // namespace

extern "C" {

power_status power_struct_layout(const char * name, uint32_t * size, uint32_t * offsets, uint32_t capacity,
                                 uint32_t * count, power_error * err) {
    return power::guarded(err, [&] {
        power::check_not_null(name, "name");
        power::check_not_null(size, "size");
        power::check_not_null(count, "count");
        for (const Layout & layout : layouts()) {
            if (strcmp(layout.name, name) != 0) {
                continue;
            }
            *size = layout.size;
            *count = (uint32_t) layout.offsets.size();
            for (uint32_t i = 0; offsets != nullptr && i < *count && i < capacity; ++i) {
                offsets[i] = layout.offsets[i];
            }
            return;
        }
        power::fail(POWER_INVALID_ARGUMENT, "no structure is named '%s'", name);
    });
}

uint32_t power_abi_version(void) {
    return POWER_ABI_VERSION;
}

}  // extern "C"
