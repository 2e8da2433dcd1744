// Where Kafka is looked for, in lines that say that it does not answer.
#pragma once

#include <string>

namespace millrace {

// The addresses and the flag that gives them; also whether they are its default, which nobody may
// have thought of: "localhost:9092 (the default of --brokers)".
std::string BrokersText(const std::string& brokers);

}  // namespace millrace
