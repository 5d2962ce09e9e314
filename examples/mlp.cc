// A small network that learns to write licences, byte by byte, in plain C++, and cannot be lost.
//
//     build/bin/mlp runs/mlp                       stop it any way you like and start it again
//     unbroken drill --kills 6 -- build/bin/mlp    it must continue bit for bit
//
// What it is made of is attached once: the weights, Adam's moments, and three counters, one of which is the
// state of its random generator. `--forget adam` leaves the moments out, to see the drill catch it.
#include <unbroken/session.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace {

constexpr std::size_t kBytes = 256, kContext = 6, kEmbed = 8, kIn = kContext * kEmbed, kHidden = 64,
                      kBatch = 32;
constexpr float kKept = 0.9F, kRate = 3e-3F;  // dropout keeps that many; Adam's step

using Floats = std::vector<float>;

/// One parameter: its value, the gradient of this step, and Adam's two moments.
struct Parameter {
  std::string name;
  std::vector<std::uint64_t> shape;
  Floats value, gradient, mean, square;
};

class Mlp {
 public:
  explicit Mlp(std::string text) : text_(std::move(text)) {
    parameters_ = {make("embed", {kBytes, kEmbed}, 0.1F), make("in.weight", {kIn, kHidden}, 0.15F),
                   make("in.bias", {kHidden}, 0), make("out.weight", {kHidden, kBytes}, 0.1F),
                   make("out.bias", {kBytes}, 0)};
  }

  /// The whole state, as views of the memory that training works on.
  unbroken::Result<> attach(unbroken::Session& session, bool with_adam) {
    std::vector<unbroken::TensorView> weights, moments;
    for (Parameter& p : parameters_) {
      weights.push_back(unbroken::contiguous_view(p.name, unbroken::DType::f32, p.shape, p.value.data()));
      moments.push_back(
          unbroken::contiguous_view(p.name + ".mean", unbroken::DType::f32, p.shape, p.mean.data()));
      moments.push_back(
          unbroken::contiguous_view(p.name + ".square", unbroken::DType::f32, p.shape, p.square.data()));
    }
    UNBROKEN_DO(session.attach("model", std::move(weights)));
    if (with_adam) UNBROKEN_DO(session.attach("adam", std::move(moments)));
    return session.attach("counters", {scalar("generator", generator_), scalar("position", position_),
                                       scalar("adam_steps", adam_steps_)});
  }

  /// One batch: forward, backward, Adam. The loss in nats per byte.
  double train_step() {
    for (Parameter& p : parameters_) p.gradient.assign(p.value.size(), 0);
    double loss = 0;
    for (std::size_t i = 0; i < kBatch; ++i) {
      loss +=
          learn(text_.substr(position_, kContext), static_cast<unsigned char>(text_[position_ + kContext]));
      position_ = (position_ + kContext + 1) % (text_.size() - kContext - 1);
    }
    adam();
    return loss / kBatch;
  }

 private:
  static unbroken::TensorView scalar(const char* name, std::uint64_t& value) {
    return unbroken::contiguous_view(name, unbroken::DType::u64, {1}, &value);
  }

  Parameter make(const char* name, std::vector<std::uint64_t> shape, float scale) {
    std::size_t count = 1;
    for (const std::uint64_t axis : shape) count *= axis;
    Parameter p{name, std::move(shape), Floats(count), Floats(count), Floats(count), Floats(count)};
    for (float& x : p.value) x = scale * (2 * uniform() - 1);
    return p;
  }

  /// In [0, 1): xorshift, whose whole state is one number.
  float uniform() {
    generator_ ^= generator_ << 13;
    generator_ ^= generator_ >> 7;
    generator_ ^= generator_ << 17;
    return static_cast<float>(generator_ >> 40) / static_cast<float>(1 << 24);
  }

  /// Adds the gradient of one example: context -> following byte.
  double learn(const std::string& context, std::size_t following) {
    auto& [embed, w_in, b_in, w_out, b_out] = parameters_;
    std::array<float, kIn> x{};
    for (std::size_t c = 0; c < kContext; ++c)
      for (std::size_t e = 0; e < kEmbed; ++e)
        x[c * kEmbed + e] = embed.value[static_cast<unsigned char>(context[c]) * kEmbed + e];
    std::array<float, kHidden> h{}, kept{};
    for (std::size_t j = 0; j < kHidden; ++j) {
      float sum = b_in.value[j];
      for (std::size_t k = 0; k < kIn; ++k) sum += x[k] * w_in.value[k * kHidden + j];
      kept[j] = uniform() < kKept ? 1 / kKept : 0;
      h[j] = std::tanh(sum);
    }
    std::array<float, kBytes> p{};
    float total = 0;
    for (std::size_t b = 0; b < kBytes; ++b) {
      float sum = b_out.value[b];
      for (std::size_t j = 0; j < kHidden; ++j) sum += h[j] * kept[j] * w_out.value[j * kBytes + b];
      total += p[b] = std::exp(sum);
    }
    for (float& one : p) one /= total;

    const double loss = -std::log(p[following]);
    p[following] -= 1;  // now the gradient of the scores
    std::array<float, kHidden> dh{};
    for (std::size_t b = 0; b < kBytes; ++b) {
      b_out.gradient[b] += p[b] / kBatch;
      for (std::size_t j = 0; j < kHidden; ++j) {
        w_out.gradient[j * kBytes + b] += h[j] * kept[j] * p[b] / kBatch;
        dh[j] += w_out.value[j * kBytes + b] * p[b] * kept[j] * (1 - h[j] * h[j]) / kBatch;
      }
    }
    std::array<float, kIn> dx{};
    for (std::size_t k = 0; k < kIn; ++k)
      for (std::size_t j = 0; j < kHidden; ++j) {
        w_in.gradient[k * kHidden + j] += x[k] * dh[j];
        dx[k] += w_in.value[k * kHidden + j] * dh[j];
      }
    for (std::size_t j = 0; j < kHidden; ++j) b_in.gradient[j] += dh[j];
    for (std::size_t c = 0; c < kContext; ++c)
      for (std::size_t e = 0; e < kEmbed; ++e)
        embed.gradient[static_cast<unsigned char>(context[c]) * kEmbed + e] += dx[c * kEmbed + e];
    return loss;
  }

  void adam() {
    constexpr float kMean = 0.9F, kSquare = 0.999F;
    const auto t = static_cast<float>(++adam_steps_);
    const float rate = kRate * std::sqrt(1 - std::pow(kSquare, t)) / (1 - std::pow(kMean, t));
    for (Parameter& p : parameters_)
      for (std::size_t i = 0; i < p.value.size(); ++i) {
        p.mean[i] += (1 - kMean) * (p.gradient[i] - p.mean[i]);
        p.square[i] += (1 - kSquare) * (p.gradient[i] * p.gradient[i] - p.square[i]);
        p.value[i] -= rate * p.mean[i] / (std::sqrt(p.square[i]) + 1e-8F);
      }
  }

  const std::string text_;
  std::array<Parameter, 5> parameters_;
  std::uint64_t generator_ = 0x5eed, position_ = 0, adam_steps_ = 0;
};

std::string licence() {
  std::ifstream file("/usr/share/common-licenses/GPL-3", std::ios::binary);  // on every Debian machine
  std::string text{std::istreambuf_iterator<char>(file), {}};
  while (text.size() < 1000) text += "All licences of this machine are gone; this is what is left to learn. ";
  return text;
}

unbroken::Result<> train(const std::string& directory, std::uint64_t steps, bool with_adam) {
  Mlp mlp(licence());
  UNBROKEN_TRY(unbroken::Session session, unbroken::Session::open(directory, {.every = "10"}));
  UNBROKEN_DO(mlp.attach(session, with_adam));
  UNBROKEN_TRY(std::uint64_t step, session.restore());
  for (const std::uint64_t last = session.steps_of(steps); step < last;) {
    const double loss = mlp.train_step();
    std::printf("%lu %.6f\n", static_cast<unsigned long>(step), loss);
    UNBROKEN_DO(session.step(++step, {{"loss", loss}}));
  }
  return session.close();
}

}  // namespace

int main(int argc, char** argv) {
  std::string directory = "runs/mlp";
  std::uint64_t steps = 150;
  bool with_adam = true;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i], value = i + 1 < argc ? argv[i + 1] : "";
    if (word == "--forget" && value == "adam") {
      with_adam = false;
      ++i;
    } else if (word == "--steps") {
      steps = std::strtoull(value.c_str(), nullptr, 10);
      ++i;
    } else if (word.rfind("--", 0) != 0) {
      directory = word;
    } else {
      std::fprintf(stderr, "usage: mlp [DIR] [--steps N] [--forget adam]\n");
      return 78;
    }
  }
  const auto done = train(directory, steps, with_adam);
  return done.ok() ? 0 : unbroken::exit_with(done.error());
}
