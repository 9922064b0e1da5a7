// The captured log: a ring of the last bytes that llama.cpp and ggml said.

#include "shim_internal.h"

#include "ggml.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <mutex>

namespace power {

namespace {

constexpr size_t kRingBytes = 64 * 1024;

class LogRing {
public:
    void append(const char * text) {
        const std::lock_guard<std::mutex> lock(mutex_);
        for (const char * byte = text; *byte != '\0'; ++byte) {
            ring_[written_ % kRingBytes] = *byte;
            ++written_;
        }
    }

    uint64_t position() {
        const std::lock_guard<std::mutex> lock(mutex_);
        return written_;
    }

    std::string since(uint64_t position, size_t max_bytes) {
        const std::lock_guard<std::mutex> lock(mutex_);
        const uint64_t held = std::min<uint64_t>(written_, kRingBytes);
        const uint64_t wanted = std::min<uint64_t>(written_ - std::min(position, written_), max_bytes);
        const uint64_t count = std::min(held, wanted);
        std::string text;
        text.reserve(count);
        for (uint64_t at = written_ - count; at < written_; ++at) {
            text.push_back(ring_[at % kRingBytes]);
        }
        return drop_partial_character(text);
    }

private:
    // A cut may have split a UTF-8 character: drop its continuation bytes.
    static std::string drop_partial_character(const std::string & text) {
        size_t start = 0;
        while (start < text.size() && ((unsigned char) text[start] & 0xC0) == 0x80) {
            ++start;
        }
        return text.substr(start);
    }

    std::mutex mutex_;
    uint64_t written_ = 0;
    char ring_[kRingBytes] = {};
};

LogRing & ring() {
    static LogRing instance;
    return instance;
}

void on_log(ggml_log_level level, const char * text, void * user_data) {
    (void) user_data;
    if (text != nullptr && level != GGML_LOG_LEVEL_DEBUG) {
        ring().append(text);
    }
}

// The process dies after this returns; say why on stderr first.
void on_library_abort(const char * message) {
    fprintf(stderr, "libpower_native: llama.cpp aborted: %s\n", message);
    fflush(stderr);
}

}  // namespace

uint64_t log_position() {
    return ring().position();
}

std::string log_since(uint64_t position, size_t max_bytes) {
    return ring().since(position, max_bytes);
}

void library_init() {
    static std::once_flag once;
    std::call_once(once, [] {
        llama_log_set(on_log, nullptr);
        ggml_set_abort_callback(on_library_abort);
        llama_backend_init();
    });
}

}  // namespace power

extern "C" {

power_status power_log_tail(char * buffer, uint32_t capacity, uint32_t * written, power_error * err) {
    return power::guarded(err, [&] {
        power::check_not_null(buffer, "buffer");
        power::check_not_null(written, "written");
        if (capacity == 0) {
            power::fail(POWER_INVALID_ARGUMENT, "`capacity` is 0, expected room for the terminator at least");
        }
        const std::string text = power::log_since(0, capacity - 1);
        power::copy_text(buffer, capacity, text);
        *written = (uint32_t) text.size();
    });
}

void power_log_capture(int32_t on) {
    power::library_init();
    llama_log_set(on != 0 ? power::on_log : nullptr, nullptr);
}

}  // extern "C"
