// Failures and the error structure.

#include "shim_internal.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace power {

void fail(power_status status, const char * format, ...) {
    char text[sizeof(power_error::text)];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    throw Failure{status, text};
}

void copy_text(char * buffer, size_t capacity, const std::string & text) {
    if (buffer == nullptr || capacity == 0) {
        return;
    }
    const size_t length = std::min(capacity - 1, text.size());
    memcpy(buffer, text.data(), length);
    buffer[length] = '\0';
}

bool error_usable(const power_error * err) {
    return err == nullptr || err->size == sizeof(power_error);
}

void error_clear(power_error * err) {
    if (err == nullptr) {
        return;
    }
    err->status = POWER_OK;
    err->text[0] = '\0';
    err->log_tail[0] = '\0';
}

power_status error_report(power_error * err, power_status status, const std::string & text, uint64_t log_mark) {
    if (err == nullptr) {
        return status;
    }
    err->status = status;
    copy_text(err->text, sizeof(err->text), text);
    copy_text(err->log_tail, sizeof(err->log_tail), log_since(log_mark, sizeof(err->log_tail) - 1));
    return status;
}

}  // namespace power
