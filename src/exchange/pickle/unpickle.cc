#include "exchange/pickle/unpickle.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <unordered_map>
#include <utility>

#include "exchange/pickle/pickle_calls.h"

namespace unbroken {

namespace {

using Kind = PickleValue::Kind;

constexpr std::size_t kNameBytesMax = 256, kIntegerBytesMax = 2048;

Error corrupt(std::string_view why) {
  return Error(Code::corrupt, fmt::format("pickle: {}", why));
}

/// Two's complement, little-endian, as decimal digits. Quadratic, over at most kIntegerBytesMax bytes.
std::string decimal_of(std::string_view bytes) {
  const bool is_negative = (static_cast<unsigned char>(bytes.back()) & 0x80) != 0;
  std::vector<std::uint32_t> limbs;  // base 10^9, least significant first
  unsigned carry = 1;
  std::vector<unsigned char> magnitude(bytes.size());
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const auto byte = static_cast<unsigned char>(bytes[i]);
    const unsigned value = is_negative ? (255U - byte) + carry : byte;
    magnitude[i] = static_cast<unsigned char>(value & 255);
    carry = is_negative ? value >> 8 : 0;
  }
  for (std::size_t i = magnitude.size(); i-- > 0;) {
    std::uint64_t rest = magnitude[i];
    for (std::uint32_t& limb : limbs) {
      rest += std::uint64_t{limb} << 8;
      limb = static_cast<std::uint32_t>(rest % 1'000'000'000);
      rest /= 1'000'000'000;
    }
    if (rest != 0) limbs.push_back(static_cast<std::uint32_t>(rest));
  }
  if (limbs.empty()) return "0";
  std::string out = fmt::format("{}{}", is_negative ? "-" : "", limbs.back());
  for (std::size_t i = limbs.size() - 1; i-- > 0;) out += fmt::format("{:09}", limbs[i]);
  return out;
}

class Machine {
 public:
  Machine(std::string_view input, PickleDialect dialect, PickleHeap& heap, const PickleLimits& limits)
      : in_(input), dialect_(dialect), heap_(heap), limits_(limits) {}

  Result<Ref> run() {
    for (;;) {
      UNBROKEN_TRY(const std::uint64_t opcode, number<1>());
      if (opcode == '.') {
        if (stack_.size() != 1 || !marks_.empty()) return corrupt("it ends with more than one value");
        return stack_.back();
      }
      UNBROKEN_DO(step(static_cast<unsigned char>(opcode)));
    }
  }
  std::string_view rest() const { return in_; }

 private:
  // -- Input

  Result<std::string_view> take(std::uint64_t count) {
    if (count > in_.size()) return corrupt("it is cut short");
    const std::string_view taken = in_.substr(0, count);
    in_.remove_prefix(count);
    return taken;
  }
  template <unsigned Width>
  Result<std::uint64_t> number() {
    UNBROKEN_TRY(const std::string_view bytes, take(Width));
    std::uint64_t value = 0;
    for (unsigned i = 0; i < Width; ++i)
      value |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
    return value;
  }
  template <unsigned Width>
  Result<std::string_view> counted() {
    UNBROKEN_TRY(const std::uint64_t count, number<Width>());
    return take(count);
  }
  Result<std::string_view> line() {
    const std::size_t end = in_.substr(0, kNameBytesMax + 1).find('\n');
    if (end == std::string_view::npos) return corrupt("a name is cut short or too long");
    const std::string_view text = in_.substr(0, end);
    in_.remove_prefix(end + 1);
    return text;
  }

  // -- Stack

  Result<> push_ref(Ref ref) {
    if (stack_.size() >= limits_.stack) return corrupt("it needs too deep a stack");
    stack_.push_back(ref);
    return Done{};
  }
  Result<> push(PickleValue value) {
    if (heap_.values.size() >= limits_.values)
      return corrupt(fmt::format("it holds more than {} values", limits_.values));
    heap_.text_bytes += value.text.size();
    if (heap_.text_bytes > limits_.text_bytes) return corrupt("its texts and bytes are too many");
    UNBROKEN_DO(count_items(value.items.size()));
    heap_.values.push_back(std::move(value));
    return push_ref(static_cast<Ref>(heap_.values.size() - 1));
  }
  Result<> count_items(std::size_t more) {
    heap_.items += more;
    if (heap_.items > limits_.items) return corrupt("its containers hold too many items");
    return Done{};
  }
  Result<> push_kind(Kind kind) { return push({.kind = kind}); }
  Result<> push_text(Kind kind, std::string_view text) {
    return push({.kind = kind, .text = std::string(text)});
  }
  Result<> push_number(Kind kind, std::int64_t value) { return push({.kind = kind, .number = value}); }

  /// Nothing below the newest mark is a value of the opcode at hand.
  std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  Result<Ref> pop() {
    if (stack_.size() <= floor()) return corrupt("it takes a value where there is none");
    const Ref top = stack_.back();
    stack_.pop_back();
    return top;
  }
  Result<Ref> top() const {
    if (stack_.size() <= floor()) return corrupt("it takes a value where there is none");
    return stack_.back();
  }
  Result<std::vector<Ref>> pop_to_mark() {
    if (marks_.empty()) return corrupt("it looks for a mark where there is none");
    std::vector<Ref> items(stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back()), stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    return items;
  }
  PickleValue& at(Ref ref) { return heap_.values[ref]; }

  // -- Memo

  Result<> put(std::uint64_t index) {
    UNBROKEN_TRY(const Ref ref, top());
    memo_[index] = ref;
    return Done{};
  }
  Result<> get(std::uint64_t index) {
    const auto it = memo_.find(index);
    if (it == memo_.end()) return corrupt("it refers to a value that it does not have");
    return push_ref(it->second);
  }

  // -- Opcodes

  Result<> step(unsigned char opcode) {
    switch (opcode) {
      case 0x80: {  // PROTO
        UNBROKEN_TRY(const std::uint64_t version, number<1>());
        if (version < 2 || version > 5) return corrupt(fmt::format("protocol {} is not read", version));
        return Done{};
      }
      case 0x95: {  // FRAME
        UNBROKEN_TRY(const std::uint64_t count, number<8>());
        if (count > in_.size()) return corrupt("it is cut short");
        return Done{};
      }
      case '(':
        if (marks_.size() >= limits_.stack) return corrupt("it needs too deep a stack");
        marks_.push_back(stack_.size());
        return Done{};
      case '0': {  // POP
        if (stack_.size() == floor() && !marks_.empty()) {
          marks_.pop_back();
          return Done{};
        }
        UNBROKEN_DO(pop());
        return Done{};
      }
      case '1': {  // POP_MARK
        UNBROKEN_DO(pop_to_mark());
        return Done{};
      }
      case '2': {  // DUP
        UNBROKEN_TRY(const Ref ref, top());
        return push_ref(ref);
      }
      case 'q': {  // BINPUT
        UNBROKEN_TRY(const std::uint64_t index, number<1>());
        return put(index);
      }
      case 'r': {  // LONG_BINPUT
        UNBROKEN_TRY(const std::uint64_t index, number<4>());
        return put(index);
      }
      case 0x94:  // MEMOIZE
        return put(memo_.size());
      case 'h': {  // BINGET
        UNBROKEN_TRY(const std::uint64_t index, number<1>());
        return get(index);
      }
      case 'j': {  // LONG_BINGET
        UNBROKEN_TRY(const std::uint64_t index, number<4>());
        return get(index);
      }
      default:
        return scalar(opcode);
    }
  }

  Result<> scalar(unsigned char opcode) {
    switch (opcode) {
      case 'N':
        return push_kind(Kind::none);
      case 0x88:
      case 0x89:
        return push_number(Kind::boolean, opcode == 0x88 ? 1 : 0);
      case 'K': {
        UNBROKEN_TRY(const std::uint64_t value, number<1>());
        return push_number(Kind::integer, static_cast<std::int64_t>(value));
      }
      case 'M': {
        UNBROKEN_TRY(const std::uint64_t value, number<2>());
        return push_number(Kind::integer, static_cast<std::int64_t>(value));
      }
      case 'J': {
        UNBROKEN_TRY(const std::uint64_t value, number<4>());
        return push_number(Kind::integer, static_cast<std::int32_t>(static_cast<std::uint32_t>(value)));
      }
      case 0x8a: {  // LONG1
        UNBROKEN_TRY(const std::string_view bytes, counted<1>());
        return integer(bytes);
      }
      case 0x8b: {  // LONG4
        UNBROKEN_TRY(const std::string_view bytes, counted<4>());
        return integer(bytes);
      }
      case 'G': {  // BINFLOAT, big-endian
        UNBROKEN_TRY(const std::uint64_t bits, number<8>());
        return push({.kind = Kind::real, .real = std::bit_cast<double>(__builtin_bswap64(bits))});
      }
      case 'X': {
        UNBROKEN_TRY(const std::string_view text, counted<4>());
        return push_text(Kind::text, text);
      }
      case 0x8c: {
        UNBROKEN_TRY(const std::string_view text, counted<1>());
        return push_text(Kind::text, text);
      }
      case 0x8d: {
        UNBROKEN_TRY(const std::string_view text, counted<8>());
        return push_text(Kind::text, text);
      }
      case 'U': {  // SHORT_BINSTRING, a str of Python 2
        UNBROKEN_TRY(const std::string_view text, counted<1>());
        return push_text(Kind::text, text);
      }
      case 'T': {
        UNBROKEN_TRY(const std::string_view text, counted<4>());
        return push_text(Kind::text, text);
      }
      case 'C': {
        UNBROKEN_TRY(const std::string_view bytes, counted<1>());
        return push_text(Kind::bytes, bytes);
      }
      case 'B': {
        UNBROKEN_TRY(const std::string_view bytes, counted<4>());
        return push_text(Kind::bytes, bytes);
      }
      case 0x8e: {
        UNBROKEN_TRY(const std::string_view bytes, counted<8>());
        return push_text(Kind::bytes, bytes);
      }
      default:
        return container(opcode);
    }
  }

  Result<> integer(std::string_view bytes) {
    if (bytes.size() > kIntegerBytesMax) return corrupt("an integer is too long");
    if (bytes.empty()) return push_number(Kind::integer, 0);
    if (bytes.size() <= 8) {
      const bool is_negative = (static_cast<unsigned char>(bytes.back()) & 0x80) != 0;
      std::uint64_t value = is_negative ? ~std::uint64_t{0} : 0;
      for (std::size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
      return push_number(Kind::integer, static_cast<std::int64_t>(value));
    }
    return push_text(Kind::big_integer, decimal_of(bytes));
  }

  Result<> container(unsigned char opcode) {
    switch (opcode) {
      case ']':
        return push_kind(Kind::list);
      case '}':
        return push_kind(Kind::dict);
      case ')':
        return push_kind(Kind::tuple);
      case 0x8f:
        return push_kind(Kind::set);
      case 'l':
        return from_mark(Kind::list);
      case 't':
        return from_mark(Kind::tuple);
      case 0x91:
        return from_mark(Kind::frozenset);
      case 'd':
        return from_mark(Kind::dict);
      case 0x85:
      case 0x86:
      case 0x87: {  // TUPLE1..3
        const std::size_t count = opcode - 0x84U;
        if (stack_.size() < floor() + count) return corrupt("it takes a value where there is none");
        const auto begin = stack_.end() - static_cast<std::ptrdiff_t>(count);
        PickleValue tuple{.kind = Kind::tuple, .items = {begin, stack_.end()}};
        stack_.erase(begin, stack_.end());
        return push(std::move(tuple));
      }
      case 'a':
      case 's': {  // APPEND, SETITEM
        const std::size_t count = opcode == 'a' ? 1 : 2;
        if (stack_.size() < floor() + count + 1) return corrupt("it takes a value where there is none");
        const std::vector<Ref> items(stack_.end() - static_cast<std::ptrdiff_t>(count), stack_.end());
        stack_.resize(stack_.size() - count);
        return add(items, opcode == 's');
      }
      case 'e':
      case 'u':
      case 0x90: {  // APPENDS, SETITEMS, ADDITEMS
        UNBROKEN_TRY(const std::vector<Ref> items, pop_to_mark());
        return add(items, opcode == 'u');
      }
      default:
        return object(opcode);
    }
  }

  Result<> from_mark(Kind kind) {
    UNBROKEN_TRY(std::vector<Ref> items, pop_to_mark());
    if (kind == Kind::dict && items.size() % 2 != 0) return corrupt("a key has no value");
    return push({.kind = kind, .items = std::move(items)});
  }

  Result<> add(const std::vector<Ref>& items, bool are_pairs) {
    UNBROKEN_TRY(const Ref ref, top());
    PickleValue& target = at(ref);
    const Kind kind = target.kind;
    const bool is_dict = kind == Kind::dict || kind == Kind::ordered_dict || kind == Kind::counter ||
                         kind == Kind::defaultdict;
    if (kind == Kind::foreign) return Done{};
    const bool is_list = kind == Kind::list || kind == Kind::deque || kind == Kind::set;
    if (are_pairs ? !is_dict : !is_list) return corrupt("it adds items to what holds none");
    if (are_pairs && items.size() % 2 != 0) return corrupt("a key has no value");
    UNBROKEN_DO(count_items(items.size()));
    target.items.insert(target.items.end(), items.begin(), items.end());
    return Done{};
  }

  Result<> object(unsigned char opcode) {
    switch (opcode) {
      case 'c': {  // GLOBAL
        UNBROKEN_TRY(const std::string_view module, line());
        UNBROKEN_TRY(const std::string_view name, line());
        return global(module, name);
      }
      case 0x93: {  // STACK_GLOBAL
        UNBROKEN_TRY(const Ref name, pop());
        UNBROKEN_TRY(const Ref module, pop());
        if (at(name).kind != Kind::text || at(module).kind != Kind::text)
          return corrupt("a name is not a text");
        return global(at(module).text, at(name).text);
      }
      case 'i': {  // INST: named, and then called
        UNBROKEN_TRY(const std::string_view module, line());
        UNBROKEN_TRY(const std::string_view name, line());
        UNBROKEN_DO(find_global(dialect_, module, name));
        return corrupt(fmt::format("it makes an instance of {}.{} in a way that is not read",
                                   foreign_text(module), foreign_text(name)));
      }
      case 'R': {  // REDUCE
        UNBROKEN_TRY(const Ref arguments, pop());
        UNBROKEN_TRY(const Ref callable, pop());
        UNBROKEN_TRY(PickleValue made, call_global(heap_, at(callable), at(arguments)));
        return push(std::move(made));
      }
      case 0x81: {  // NEWOBJ
        UNBROKEN_TRY(const Ref arguments, pop());
        UNBROKEN_TRY(const Ref cls, pop());
        UNBROKEN_TRY(PickleValue made, new_record(at(cls), at(arguments)));
        return push(std::move(made));
      }
      case 0x92: {  // NEWOBJ_EX
        UNBROKEN_DO(pop());
        UNBROKEN_DO(pop());
        UNBROKEN_TRY(const Ref cls, pop());
        if (at(cls).kind != Kind::foreign) return corrupt("it makes an instance in a way that is not read");
        return push_ref(cls);
      }
      case 'b': {  // BUILD
        UNBROKEN_TRY(const Ref state, pop());
        UNBROKEN_TRY(const Ref target, top());
        return build(heap_, target, state);
      }
      case 'Q': {  // BINPERSID
        UNBROKEN_TRY(const Ref id, pop());
        if (dialect_ != PickleDialect::torch_file) return corrupt("it refers to a storage");
        UNBROKEN_TRY(PickleValue storage, storage_of(heap_, id));
        return push(std::move(storage));
      }
      default:
        return corrupt(fmt::format("opcode 0x{:02x} is not read", opcode));
    }
  }

  Result<> global(std::string_view module, std::string_view name) {
    auto known = find_global(dialect_, module, name);
    if (!known.ok() && dialect_ == PickleDialect::torch_file) {
      std::string text = fmt::format("{}.{}", foreign_text(module), foreign_text(name));
      heap_.not_listed.insert(text);
      return push(foreign_value(std::move(text)));
    }
    UNBROKEN_TRY(const GlobalName found, std::move(known));
    return push({.kind = found.global == Global::dtype ? Kind::dtype : Kind::global,
                 .global = found.global,
                 .dtype = found.dtype});
  }

  std::string_view in_;
  PickleDialect dialect_;
  PickleHeap& heap_;
  PickleLimits limits_;
  std::vector<Ref> stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<std::uint64_t, Ref> memo_;
};

}  // namespace

Result<Ref> unpickle(std::string_view& rest, PickleDialect dialect, PickleHeap& heap,
                     const PickleLimits& limits) {
  Machine machine(rest, dialect, heap, limits);
  UNBROKEN_TRY(const Ref value, machine.run());
  rest = machine.rest();
  return value;
}

}  // namespace unbroken
