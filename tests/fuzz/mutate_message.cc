#include "tests/fuzz/mutate_message.h"

#include <google/protobuf/reflection.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

namespace millrace::fuzz {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

uint64_t WholeNumber(uint64_t old, ByteSource& bytes) {
  switch (bytes.Below(8)) {
    case 0:
      return old + 1;
    case 1:
      return old - 1;
    case 2:
      return 0;
    case 3:
      return bytes.Byte();
    case 4:
      return std::numeric_limits<uint64_t>::max() - bytes.Below(2);
    case 5:
      return uint64_t{1} << bytes.Below(64);
    case 6:
      return (uint64_t{1} << bytes.Below(64)) - 1;
    default:
      return bytes.Number();
  }
}

double Real(double old, ByteSource& bytes) {
  constexpr std::array<double, 8> kReals = {std::numeric_limits<double>::quiet_NaN(),
                                            std::numeric_limits<double>::infinity(),
                                            -std::numeric_limits<double>::infinity(),
                                            0.0,
                                            -1.0,
                                            3e38,
                                            1e-40,
                                            1e18};
  const size_t choice = bytes.Below(kReals.size() + 2);
  if (choice < kReals.size()) return kReals[choice];
  return choice == kReals.size() ? -old : old * 1.5 + bytes.Byte();
}

// Sets the field, or its element `at` when it is repeated; at -1 appends one.
class Setter {
 public:
  Setter(Message& message, const FieldDescriptor& field, int at)
      : message_(message), reflection_(*message.GetReflection()), field_(field), at_(at) {}

  void Set(ByteSource& bytes) {
    switch (field_.cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32:
        return Put(static_cast<int32_t>(WholeNumber(static_cast<uint32_t>(Get<int32_t>()), bytes)));
      case FieldDescriptor::CPPTYPE_INT64:
        return Put(static_cast<int64_t>(WholeNumber(static_cast<uint64_t>(Get<int64_t>()), bytes)));
      case FieldDescriptor::CPPTYPE_UINT32:
        return Put(static_cast<uint32_t>(WholeNumber(Get<uint32_t>(), bytes)));
      case FieldDescriptor::CPPTYPE_UINT64:
        return Put(WholeNumber(Get<uint64_t>(), bytes));
      case FieldDescriptor::CPPTYPE_DOUBLE:
        return Put(Real(Get<double>(), bytes));
      case FieldDescriptor::CPPTYPE_FLOAT:
        return Put(static_cast<float>(Real(Get<float>(), bytes)));
      case FieldDescriptor::CPPTYPE_BOOL:
        return Put(!Get<bool>());
      case FieldDescriptor::CPPTYPE_ENUM:
        return PutEnum(bytes);
      case FieldDescriptor::CPPTYPE_STRING: {
        std::string text = Get<std::string>();
        Mutate(text, bytes);
        return Put(text);
      }
      case FieldDescriptor::CPPTYPE_MESSAGE:
        return Mutate(Child(), bytes);
    }
  }

 private:
  Message& Child() {
    if (!field_.is_repeated()) return *reflection_.MutableMessage(&message_, &field_);
    if (at_ < 0) return *reflection_.AddMessage(&message_, &field_);
    return *reflection_.MutableRepeatedMessage(&message_, &field_, at_);
  }

  template <typename T>
  T Get() const {
    if (field_.is_repeated()) {
      if (at_ < 0) return T();
      return reflection_.GetRepeatedFieldRef<T>(message_, &field_).Get(at_);
    }
    if constexpr (std::is_same_v<T, std::string>) {
      return reflection_.GetString(message_, &field_);
    } else if constexpr (std::is_same_v<T, int32_t>) {
      return reflection_.GetInt32(message_, &field_);
    } else if constexpr (std::is_same_v<T, int64_t>) {
      return reflection_.GetInt64(message_, &field_);
    } else if constexpr (std::is_same_v<T, uint32_t>) {
      return reflection_.GetUInt32(message_, &field_);
    } else if constexpr (std::is_same_v<T, uint64_t>) {
      return reflection_.GetUInt64(message_, &field_);
    } else if constexpr (std::is_same_v<T, double>) {
      return reflection_.GetDouble(message_, &field_);
    } else if constexpr (std::is_same_v<T, float>) {
      return reflection_.GetFloat(message_, &field_);
    } else {
      return reflection_.GetBool(message_, &field_);
    }
  }

  template <typename T>
  void Put(const T& value) {
    if (field_.is_repeated()) {
      auto elements = reflection_.GetMutableRepeatedFieldRef<T>(&message_, &field_);
      if (at_ < 0) {
        elements.Add(value);
      } else {
        elements.Set(at_, value);
      }
      return;
    }
    if constexpr (std::is_same_v<T, std::string>) {
      reflection_.SetString(&message_, &field_, value);
    } else if constexpr (std::is_same_v<T, int32_t>) {
      reflection_.SetInt32(&message_, &field_, value);
    } else if constexpr (std::is_same_v<T, int64_t>) {
      reflection_.SetInt64(&message_, &field_, value);
    } else if constexpr (std::is_same_v<T, uint32_t>) {
      reflection_.SetUInt32(&message_, &field_, value);
    } else if constexpr (std::is_same_v<T, uint64_t>) {
      reflection_.SetUInt64(&message_, &field_, value);
    } else if constexpr (std::is_same_v<T, double>) {
      reflection_.SetDouble(&message_, &field_, value);
    } else if constexpr (std::is_same_v<T, float>) {
      reflection_.SetFloat(&message_, &field_, value);
    } else {
      reflection_.SetBool(&message_, &field_, value);
    }
  }

  void PutEnum(ByteSource& bytes) {
    const int count = field_.enum_type()->value_count();
    const auto* value =
        field_.enum_type()->value(static_cast<int>(bytes.Below(static_cast<size_t>(count))));
    if (!field_.is_repeated()) return reflection_.SetEnum(&message_, &field_, value);
    if (at_ < 0) return reflection_.AddEnum(&message_, &field_, value);
    reflection_.SetRepeatedEnum(&message_, &field_, at_, value);
  }

  Message& message_;
  const Reflection& reflection_;
  const FieldDescriptor& field_;
  int at_;
};

void MutateRepeated(Message& message, const FieldDescriptor& field, ByteSource& bytes) {
  const Reflection& reflection = *message.GetReflection();
  const int size = reflection.FieldSize(message, &field);
  if (size == 0) return Setter(message, field, -1).Set(bytes);
  const int at = static_cast<int>(bytes.Below(static_cast<size_t>(size)));
  switch (bytes.Below(8)) {
    case 0:
      return reflection.ClearField(&message, &field);
    case 1:
      return reflection.RemoveLast(&message, &field);
    case 2:
      return Setter(message, field, -1).Set(bytes);
    case 3:
      return reflection.SwapElements(&message, &field, at, size - 1);
    default:
      return Setter(message, field, at).Set(bytes);
  }
}

void MutateOne(Message& message, ByteSource& bytes) {
  // More often what is there: the rest is mostly checked away.
  std::vector<const FieldDescriptor*> fields;
  if (!bytes.Chance(64)) message.GetReflection()->ListFields(message, &fields);
  const int count = message.GetDescriptor()->field_count();
  if (count == 0) return;
  const FieldDescriptor* const field =
      fields.empty() ? message.GetDescriptor()->field(
                           static_cast<int>(bytes.Below(static_cast<size_t>(count))))
                     : fields[bytes.Below(fields.size())];
  if (field->is_repeated()) return MutateRepeated(message, *field, bytes);
  if (!field->is_required() && bytes.Chance(16)) {
    return message.GetReflection()->ClearField(&message, field);
  }
  Setter(message, *field, 0).Set(bytes);
}

}  // namespace

void Mutate(Message& message, ByteSource& bytes) {
  for (size_t left = 1 + bytes.Below(3); left > 0 && !bytes.empty(); --left) {
    MutateOne(message, bytes);
  }
}

void Mutate(std::string& text, ByteSource& bytes) {
  for (size_t left = 1 + bytes.Below(3); left > 0; --left) {
    const size_t at = text.empty() ? 0 : bytes.Below(text.size());
    switch (bytes.Below(5)) {
      case 0:
        if (!text.empty()) text[at] = static_cast<char>(bytes.Byte());
        break;
      case 1:
        text.resize(at);
        break;
      case 2:
        text.insert(at, bytes.Text(16));
        break;
      case 3:
        text.erase(at, bytes.Below(16));
        break;
      default:
        text += text.substr(at, 64);
    }
  }
}

}  // namespace millrace::fuzz
