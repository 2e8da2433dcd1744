#include "tests/simulation/referee.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace millrace::simulation {
namespace {

uint64_t BigEndian(const std::string& bytes, size_t begin, size_t count) {
  uint64_t number = 0;
  for (size_t i = 0; i < count; ++i) {
    number = number * 256 + static_cast<unsigned char>(bytes[begin + i]);
  }
  return number;
}

// What a slice says of each key; a slice may be dense, sparse or empty.
std::vector<std::pair<size_t, float>> Values(const Slice& slice) {
  std::vector<std::pair<size_t, float>> values;
  for (int i = 0; i < slice.dense_size(); ++i) values.emplace_back(i, slice.dense(i));
  for (int i = 0; i < slice.sparse_index_size(); ++i) {
    values.emplace_back(slice.sparse_index(i), slice.sparse_value(i));
  }
  return values;
}

bool IsPoison(const Gradient::Update& message) {
  std::vector<double> numbers = {message.weight_sum(), message.progressive().log_loss(),
                                 message.tail().log_loss(), message.train_loss()};
  for (const auto& [key, value] : Values(message.slice())) {
    numbers.push_back(static_cast<double>(value));
    if (value > 1e18f || value < -1e18f) return true;
  }
  for (const float value : message.embeddings().value()) {
    if (!(value >= -1e18f && value <= 1e18f)) return true;
  }
  const MomentsMessage& moments = message.moments();
  numbers.insert(numbers.end(), moments.count().begin(), moments.count().end());
  numbers.insert(numbers.end(), moments.mean().begin(), moments.mean().end());
  numbers.insert(numbers.end(), moments.m2().begin(), moments.m2().end());
  for (double number : numbers) {
    if (std::isnan(number) || std::isinf(number)) return true;
  }
  const auto negative = [](double number) { return number < 0; };
  return message.weight_sum() < 0 ||
         std::any_of(moments.count().begin(), moments.count().end(), negative) ||
         std::any_of(moments.m2().begin(), moments.m2().end(), negative);
}

// What 16 bits mean, of which `fraction_bits` are the last of the number's.
double ValueOf(uint32_t bits, int fraction_bits) {
  const int exponents = 1 << (15 - fraction_bits);
  const int exponent = static_cast<int>(bits >> fraction_bits) % exponents;
  const auto fraction = static_cast<double>(bits % (1u << fraction_bits));
  const double sign = bits >= 0x8000 ? -1 : 1;
  const int smallest = 2 - exponents / 2 - fraction_bits;  // of the last bit, where it is least
  if (exponent == exponents - 1) {
    return fraction > 0 ? std::numeric_limits<double>::quiet_NaN()
                        : sign * std::numeric_limits<double>::infinity();
  }
  if (exponent == 0) return sign * std::ldexp(fraction, smallest);
  return sign * std::ldexp(fraction + (1 << fraction_bits), smallest + exponent - 1);
}

std::shared_ptr<const Referee::Sums> Plus(const std::shared_ptr<const Referee::Sums>& sums,
                                          const EvaluationSumsMessage& more) {
  if (more.rows() == 0) return sums;
  auto total = std::make_shared<Referee::Sums>(*sums);
  total->rows += more.rows();
  total->log_loss += more.log_loss();
  for (int i = 0; i < more.cell_size(); ++i) total->cells[more.cell(i)] += more.cell_count(i);
  for (int i = 0; i < more.score_bin_size(); ++i) {
    total->bins[more.score_bin(i)] += more.score_count(i);
  }
  return total;
}

bool SumsFit(const EvaluationSumsMessage& sums, uint32_t classes) {
  if (sums.cell_size() != sums.cell_count_size()) return false;
  if (sums.score_bin_size() != sums.score_count_size()) return false;
  for (uint32_t cell : sums.cell()) {
    if (cell / classes >= classes) return false;
  }
  for (uint32_t bin : sums.score_bin()) {
    if (bin >= 8192) return false;
  }
  return true;
}

}  // namespace

Referee::Referee(Job job) : job_(std::move(job)) {
  const bool averages = job_.training.update().kind() == Training::Update::WEIGHT_CHANGE;
  switch (job_.training.optimizer().kind()) {
    case Training::Optimizer::SGD:
      slots_per_key_ = 0;
      break;
    case Training::Optimizer::MOMENTUM:
    case Training::Optimizer::ADAGRAD:
      slots_per_key_ = 1;
      break;
    case Training::Optimizer::ADAM:
    case Training::Optimizer::FTRL:
      slots_per_key_ = 2;
      break;
  }
  if (averages) slots_per_key_ = 0;
  State start;
  start.members.resize(job_.workers);
  start.weights = std::make_shared<std::vector<float>>(job_.born);
  start.slots = std::make_shared<std::vector<float>>(job_.keys * slots_per_key_);
  start.old_weights = start.weights;
  start.rows = std::make_shared<Rows>();
  start.old_rows = start.rows;
  start.progressive = std::make_shared<Sums>();
  start.tail = std::make_shared<Sums>();
  start.columns.resize(job_.numeric);
  start.old_columns.resize(job_.numeric);
  states_.push_back(std::move(start));
}

std::optional<uint64_t> Referee::Bound() const {
  switch (job_.training.consistency().model()) {
    case Training::Consistency::SEQUENTIAL:
      return 0;
    case Training::Consistency::BOUNDED:
      return job_.training.consistency().max_delay();
    case Training::Consistency::EVENTUAL:
      break;
  }
  return std::nullopt;
}

uint64_t Referee::Ahead(const State& state, uint32_t worker) const {
  uint64_t slowest = state.members[worker].clock;
  for (const Member& member : state.members) {
    if (!member.left) slowest = std::min(slowest, member.clock);
  }
  return state.members[worker].clock - slowest;
}

bool Referee::IsReleased(const State& state, uint32_t worker) const {
  if (state.members[worker].left || !Bound()) return true;
  return Ahead(state, worker) <= *Bound();
}

std::optional<std::string> Referee::Join(const std::string& value,
                                         std::vector<Unfinished>& unfinished, bool& bad) {
  bad = true;
  if (value.size() < 2 || value[0] != 2) return std::nullopt;
  if (value[1] == 0) {
    bad = false;
    return value.substr(2);
  }
  if (value[1] != 1 || value.size() < 18) return std::nullopt;
  const uint64_t id = BigEndian(value, 2, 8);
  const auto index = static_cast<uint32_t>(BigEndian(value, 10, 4));
  const auto count = static_cast<uint32_t>(BigEndian(value, 14, 4));
  if (count < 2 || index >= count) return std::nullopt;
  bad = false;
  size_t at = 0;
  while (at < unfinished.size() && (unfinished[at].id != id || unfinished[at].count != count)) ++at;
  if (index == 0) {
    // A message that begins anew is the newest; only two may be unfinished.
    if (at < unfinished.size()) unfinished.erase(unfinished.begin() + static_cast<ptrdiff_t>(at));
    unfinished.push_back({id, count, {value.substr(18)}});
    if (unfinished.size() > 2) unfinished.erase(unfinished.begin());
    return std::nullopt;
  }
  if (at == unfinished.size() || unfinished[at].chunks.size() != index) return std::nullopt;
  unfinished[at].chunks.push_back(value.substr(18));
  if (index + 1 < count) return std::nullopt;
  std::string whole;
  for (const std::string& chunk : unfinished[at].chunks) whole += chunk;
  unfinished.erase(unfinished.begin() + static_cast<ptrdiff_t>(at));
  return whole;
}

bool Referee::Fits(const Gradient& message) const {
  if (message.epoch() != job_.epoch || !RowsFit(message)) return false;
  if (message.has_ask() || message.has_leave() || message.has_restore()) return true;
  if (!message.has_update()) return false;
  const Gradient::Update& update = message.update();
  if (update.row_count() > 0) {
    const Slice& slice = update.slice();
    if (slice.begin() != job_.begin || slice.end() != job_.begin + job_.keys) return false;
    const bool dense = slice.dense_size() > 0;
    if (dense && static_cast<uint64_t>(slice.dense_size()) != job_.keys) return false;
    if (slice.sparse_index_size() != slice.sparse_value_size()) return false;
    if (dense && slice.sparse_index_size() > 0) return false;
    for (int i = 0; i < slice.sparse_index_size(); ++i) {
      if (slice.sparse_index(i) >= job_.keys) return false;
      if (i > 0 && slice.sparse_index(i) <= slice.sparse_index(i - 1)) return false;
    }
  }
  const MomentsMessage& moments = update.moments();
  const auto columns = static_cast<int>(job_.numeric);
  if (moments.count_size() != 0 && moments.count_size() != columns) return false;
  if (moments.mean_size() != moments.count_size()) return false;
  if (moments.m2_size() != moments.count_size()) return false;
  return SumsFit(update.progressive(), job_.classes) && SumsFit(update.tail(), job_.classes);
}

bool Referee::Unpack(Gradient::Update& message) const {
  const auto values = job_.training.compression().values();
  const std::string slice = message.packed_slice();
  const std::string rows = message.packed_embeddings();
  if (values == Training::Compression::FLOAT32) return slice.empty() && rows.empty();
  const Slice& plain = message.slice();
  if (plain.dense_size() + plain.sparse_value_size() + message.embeddings().value_size() > 0) {
    return false;
  }
  if (std::abs(message.packed_exponent()) > 126) return false;
  if (slice.size() % 2 + rows.size() % 2 > 0) return false;
  const auto number = [&](const std::string& bytes, size_t i) {
    const auto low = static_cast<unsigned char>(bytes[2 * i]);
    const auto high = static_cast<unsigned char>(bytes[2 * i + 1]);
    const bool fp16 = values == Training::Compression::FP16;
    const double value = ValueOf(low + 256u * high, fp16 ? 10 : 7);
    return static_cast<float>(std::ldexp(value, message.packed_exponent()));
  };
  const bool sparse = plain.sparse_index_size() > 0;
  for (size_t i = 0; i < slice.size() / 2; ++i) {
    if (sparse) {
      message.mutable_slice()->add_sparse_value(number(slice, i));
    } else {
      message.mutable_slice()->add_dense(number(slice, i));
    }
  }
  for (size_t i = 0; i < rows.size() / 2; ++i) {
    message.mutable_embeddings()->add_value(number(rows, i));
  }
  message.clear_packed_slice();
  message.clear_packed_embeddings();
  message.clear_packed_exponent();
  return true;
}

void Referee::Append(const std::string& key, const std::string& value, int64_t timestamp_ms) {
  State state = states_.back();
  state.answered.clear();
  state.answered_with_old.clear();
  state.old_wanted.clear();
  const int64_t position = end();
  const auto bury_record = [&] {
    dead_letters_.push_back({"gradients", job_.shard, position});
    ++state.dead_letters;
  };
  const auto refuse = [&] {
    ++state.refused;
    bury_record();
    states_.push_back(state);
  };
  const uint64_t worker = key.size() == 4 ? BigEndian(key, 0, 4) : job_.workers;
  if (worker == 0xffffffff) {
    Gradient request;
    std::vector<Unfinished> none;
    bool bad = false;
    const std::optional<std::string> body = Join(value, none, bad);
    const bool sense = body && request.ParseFromString(*body) && request.epoch() == job_.epoch;
    if (!sense || !Request(state, request)) return refuse();
    states_.push_back(std::move(state));
    return;
  }
  if (worker >= job_.workers) return refuse();
  Member& member = state.members[worker];
  bool bad = false;
  const std::optional<std::string> body = Join(value, member.unfinished, bad);
  if (bad) return refuse();
  if (!body) {
    states_.push_back(std::move(state));
    return;
  }
  Gradient message;
  if (!message.ParseFromString(*body) || message.worker() != worker) return refuse();
  if (message.has_update() && !Unpack(*message.mutable_update())) return refuse();
  if (!Fits(message)) return refuse();
  if (state.lost) {
    TakeWhileLost(state, std::move(message));
  } else if (message.has_restore()) {
    TakeLateReport(state, message);
  } else if (message.has_ask()) {
    const bool asks_for_old = message.has_clock() && message.clock() + 1 == member.clock;
    const bool has_old = !job_.alone && Bound() == 0 && !member.left;
    const std::vector<uint64_t> wanted(message.ask().wanted().begin(),
                                       message.ask().wanted().end());
    if (asks_for_old && has_old) {
      state.answered_with_old.insert(message.worker());
      state.old_wanted = wanted;
    } else {
      state.answered.insert(message.worker());
      const bool of_now = !message.has_clock() || message.clock() == member.clock;
      if (of_now && !wanted.empty()) member.wanted = wanted;
    }
  } else {
    const bool due = !member.left && member.clock == message.clock() && member.held == nullptr;
    if (!due) {
      if (message.has_update()) ++state.duplicates;
      // Only who repeats what is held for the round is answered later, when the round ends.
      const bool held = !member.left && member.clock == message.clock();
      if (!held) state.answered.insert(message.worker());
    } else if (message.has_leave()) {
      SeeTime(state, timestamp_ms);
      Leave(state, message);
    } else {
      SeeTime(state, timestamp_ms);
      Gradient::Update update = message.update();
      const bool poison = IsPoison(update);
      accepted_.push_back(
          {position, message.worker(), message.clock(), member.rows_end, poison, update});
      if (poison) {
        ++state.poisoned;
        bury_record();
        Gradient::Update nothing;
        nothing.set_rows_end(update.rows_end());
        nothing.set_buffer_rows(update.buffer_rows());
        if (update.has_mark()) *nothing.mutable_mark() = update.mark();
        *nothing.mutable_dead_letters() = update.dead_letters();
        *nothing.mutable_wanted() = update.wanted();
        update = nothing;
      }
      Take(state, message.worker(), std::move(update));
    }
  }
  states_.push_back(std::move(state));
}

// The newest that anybody has said; six hours from it are a jump, in either direction.
void Referee::SeeTime(State& state, int64_t timestamp_ms) {
  const int64_t now_ms = timestamp_ms < 0 ? 0 : timestamp_ms;
  const int64_t away = now_ms > state.seen_ms ? now_ms - state.seen_ms : state.seen_ms - now_ms;
  if (state.seen_ms > 0 && away > 21'600'000) ++state.time_jumps;
  state.seen_ms = std::max(state.seen_ms, now_ms);
}

void Referee::Take(State& state, uint32_t worker, Gradient::Update message) {
  ++state.accepted;
  if (Bound() == 0) {
    NoteCut(state, worker, message.mark());
    state.members[worker].held = std::make_shared<const Gradient::Update>(std::move(message));
    FinishRound(state);
  } else if (IsHeldAtCut(state, state.members[worker])) {
    state.members[worker].held = std::make_shared<const Gradient::Update>(std::move(message));
  } else {
    TakeNow(state, worker, message);
  }
  ComeToCut(state);
}

// Eventual and bounded.
void Referee::TakeNow(State& state, uint32_t worker, const Gradient::Update& message) {
  NoteCut(state, worker, message.mark());
  double present = 0;
  for (const Member& member : state.members) {
    if (!member.left) present += 1;
  }
  const State before = state;
  state.step_ms = state.seen_ms;
  StepBy(state, {&message}, present);
  Tally(state, worker, message);
  ++state.members[worker].clock;
  AnswerReleased(before, state);
  if (IsReleased(state, worker)) state.answered.insert(worker);
}

void Referee::AnswerReleased(const State& before, State& state) const {
  for (uint32_t worker = 0; worker < job_.workers; ++worker) {
    if (!IsReleased(before, worker) && IsReleased(state, worker)) state.answered.insert(worker);
  }
}

void Referee::Leave(State& state, const Gradient& message) {
  NoteCut(state, message.worker(), message.leave().mark());
  const State before = state;
  state.members[message.worker()].left = true;
  state.members[message.worker()].unfinished.clear();  // it sends nothing any more
  state.answered.insert(message.worker());
  Bury(state, message.leave().dead_letters());
  if (Bound() == 0) {
    FinishRound(state);
  } else {
    AnswerReleased(before, state);
  }
  ComeToCut(state);
}

void Referee::FinishRound(State& state) {
  std::vector<const Gradient::Update*> messages;
  for (const Member& member : state.members) {
    if (member.left) continue;
    if (member.held == nullptr) return;
    messages.push_back(member.held.get());
  }
  if (messages.empty()) return;
  state.old_weights = state.weights;
  state.old_columns = state.columns;
  state.old_rows = state.rows;
  state.old_step_ms = std::exchange(state.step_ms, state.seen_ms);
  StepBy(state, messages, 0);
  for (uint32_t worker = 0; worker < job_.workers; ++worker) {
    Member& member = state.members[worker];
    if (member.left) continue;
    Tally(state, worker, *member.held);
    member.held = nullptr;
    ++member.clock;
    state.answered.insert(worker);
  }
}

// One step by all messages. share_of > 0: a change counts as one of so many workers'.
void Referee::StepBy(State& state, const std::vector<const Gradient::Update*>& messages,
                     double share_of) {
  double total = 0;
  for (const Gradient::Update* message : messages) {
    if (message->row_count() != 0) total += message->weight_sum();
  }
  if (!(total > 0)) return;
  const bool averages = job_.training.update().kind() == Training::Update::WEIGHT_CHANGE;
  std::vector<float> sum(job_.keys, 0.0f);
  for (const Gradient::Update* message : messages) {
    if (message->row_count() == 0) continue;
    float factor = 1.0f;
    if (averages) {
      factor = static_cast<float>(share_of > 0 ? 1.0 / share_of : message->weight_sum() / total);
    }
    for (const auto& [key, value] : Values(message->slice())) {
      sum[key] = sum[key] + factor * value;
    }
  }
  auto weights = std::make_shared<std::vector<float>>(*state.weights);
  if (averages) {
    for (size_t key = 0; key < sum.size(); ++key) (*weights)[key] = (*weights)[key] + sum[key];
  } else {
    const auto mean = static_cast<float>(1.0 / total);
    const bool ftrl = job_.training.optimizer().kind() == Training::Optimizer::FTRL;
    const auto l2 = static_cast<float>(ftrl ? 0 : job_.training.l2());
    for (size_t key = 0; key < sum.size(); ++key) {
      sum[key] = sum[key] * mean;
      if (l2 > 0 && key < job_.penalised_keys) sum[key] = sum[key] + l2 * (*weights)[key];
    }
    auto slots = std::make_shared<std::vector<float>>(*state.slots);
    Optimise(state.steps, sum, *weights, *slots, job_.penalised_keys, job_.linear_keys);
    state.slots = std::move(slots);
    StepRows(state, messages, mean);
  }
  state.weights = std::move(weights);
  ++state.steps;
}

void Referee::Optimise(uint64_t steps, const std::vector<float>& gradient,
                       std::vector<float>& weights, std::vector<float>& slots, size_t penalised,
                       size_t linear) const {
  const Training::Optimizer& how = job_.training.optimizer();
  const auto t = static_cast<double>(steps);
  const auto rate = static_cast<float>(how.learning_rate() / (1.0 + how.decay() * t));
  const size_t keys = gradient.size();
  const auto epsilon = static_cast<float>(how.epsilon());
  for (size_t key = 0; key < keys; ++key) {
    const float g = gradient[key];
    switch (how.kind()) {
      case Training::Optimizer::SGD:
        weights[key] -= rate * g;
        break;
      case Training::Optimizer::MOMENTUM: {
        float& speed = slots[key];
        speed = static_cast<float>(how.momentum()) * speed + g;
        weights[key] -= rate * speed;
        break;
      }
      case Training::Optimizer::ADAGRAD: {
        float& squares = slots[key];
        squares += g * g;
        weights[key] -= rate * g / (std::sqrt(squares) + epsilon);
        break;
      }
      case Training::Optimizer::ADAM: {
        float& mean = slots[key];
        float& squares = slots[keys + key];
        mean = static_cast<float>(how.beta1()) * mean + static_cast<float>(1 - how.beta1()) * g;
        squares = static_cast<float>(how.beta2()) * squares +
                  static_cast<float>(1 - how.beta2()) * (g * g);
        const auto grow1 = static_cast<float>(1 / (1 - std::pow(how.beta1(), t + 1)));
        const auto grow2 = static_cast<float>(1 / (1 - std::pow(how.beta2(), t + 1)));
        weights[key] -= rate * (mean * grow1) / (std::sqrt(squares * grow2) + epsilon);
        break;
      }
      case Training::Optimizer::FTRL: {
        float& squares = slots[key];
        if (key >= linear) {  // AdaGrad
          squares += g * g;
          weights[key] -= rate * g / (std::sqrt(squares) + epsilon);
          break;
        }
        float& z = slots[keys + key];
        const bool free = key >= penalised;
        const auto l1 = static_cast<float>(free ? 0 : how.l1());
        const auto l2 = static_cast<float>(free ? 0 : job_.training.l2());
        const float root = std::sqrt(squares);
        squares += g * g;
        const float sigma = (std::sqrt(squares) - root) / rate;
        z += g - sigma * weights[key];
        if (std::abs(z) <= l1) {
          weights[key] = 0;
        } else {
          const float slope = (static_cast<float>(how.ftrl_beta()) + std::sqrt(squares)) / rate;
          weights[key] = -(z > 0 ? z - l1 : z + l1) / (slope + l2);
        }
        break;
      }
    }
  }
}

void Referee::Tally(State& state, uint32_t worker, const Gradient::Update& message) {
  Member& member = state.members[worker];
  member.without_rows_before = member.without_rows;
  member.rows_end_before = member.rows_end;
  member.without_rows = message.rows_end() > member.rows_end ? 0 : member.without_rows + 1;
  member.rows_end = std::max(member.rows_end, message.rows_end());
  member.buffer_rows = message.buffer_rows();
  member.wanted = {message.wanted().begin(), message.wanted().end()};
  state.rows_trained += message.new_rows();
  if (message.row_count() > 0) state.train_loss = message.train_loss();
  state.progressive = Plus(state.progressive, message.progressive());
  state.tail = Plus(state.tail, message.tail());
  const MomentsMessage& more = message.moments();
  for (int i = 0; i < more.count_size(); ++i) {
    // Chan, Golub and LeVeque (1979), as the textbook has it.
    Column& column = state.columns[static_cast<size_t>(i)];
    const double n = column.count + more.count(i);
    if (more.count(i) == 0) continue;
    const double delta = more.mean(i) - column.mean;
    column.m2 = column.m2 + more.m2(i) + delta * delta * column.count * more.count(i) / n;
    column.mean = (column.count * column.mean + more.count(i) * more.mean(i)) / n;
    column.count = n;
  }
  Bury(state, message.dead_letters());
}

void Referee::Bury(State& state, const google::protobuf::RepeatedPtrField<DeadLetter>& letters) {
  for (const DeadLetter& letter : letters) {
    dead_letters_.push_back({letter.topic(), letter.partition(), letter.offset()});
    ++state.dead_letters;
    ++state.undecodable_rows;
  }
}

}  // namespace millrace::simulation
