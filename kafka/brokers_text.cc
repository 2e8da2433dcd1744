#include "kafka/brokers_text.h"

#include "kafka/options.h"

namespace millrace {

std::string BrokersText(const std::string& brokers) {
  return brokers +
         (brokers == KafkaOptions().brokers ? " (the default of --brokers)" : " (--brokers)");
}

}  // namespace millrace
