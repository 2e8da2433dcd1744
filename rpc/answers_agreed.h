#pragma once

namespace millrace {

// The initial metadata of a stream of answers whose server has agreed to it. (Where it refuses, a
// client may be told that there are some, and that they are empty.)
inline constexpr char kAnswersAgreed[] = "millrace-answers";

}  // namespace millrace
