#include "tests/runtime/fixture.hpp"

#include <bit>
#include <cstdio>
#include <cstring>
#include <memory>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/files.hpp"

namespace dgap::test {
namespace {

using nlohmann::json;

int digits(std::int32_t dtype) { return dtype == DGAP_F32 ? 8 : 4; }

std::string hex(std::uint64_t bits, int width) {
  char text[17];
  std::snprintf(text, sizeof text, "%0*llx", width, static_cast<unsigned long long>(bits));
  return text;
}

std::uint32_t from_hex(const std::string& text) {
  return static_cast<std::uint32_t>(std::stoul(text, nullptr, 16));
}

std::string join(const std::vector<std::uint32_t>& values, int width) {
  std::string text;
  for (const std::uint32_t value : values) text += hex(value, width);
  return text;
}

std::vector<std::uint32_t> split(const std::string& text, int width) {
  std::vector<std::uint32_t> values;
  const auto step = static_cast<std::size_t>(width);
  for (std::size_t i = 0; i + step <= text.size(); i += step)
    values.push_back(from_hex(text.substr(i, step)));
  return values;
}

void check(dgap_status status) {
  if (status != DGAP_OK) throw base::FailedError(dgap_last_error());
}

template <class Handle>
using Owned = std::unique_ptr<Handle, void (*)(Handle*)>;

/// The objects that serve one sequence.
class Server {
 public:
  Server(const std::filesystem::path& directory, const Fixture& fixture)
      : bundle_(open(directory), &dgap_bundle_close), hidden_(fixture.hidden) {
    dgap_restorer* restorer = nullptr;
    check(dgap_restorer_create(bundle_.get(), fixture.precision.c_str(), &restorer));
    restorer_.reset(restorer);
    dgap_context* context = nullptr;
    check(dgap_context_create(bundle_.get(), 0, &context));
    context_.reset(context);
    check(dgap_context_begin(context, fixture.text.data(), std::ssize(fixture.text)));
    if (!fixture.online) return;
    dgap_controller* controller = nullptr;
    check(dgap_controller_create(bundle_.get(), fixture.precision.c_str(), &controller));
    controller_.reset(controller);
    check(dgap_restorer_set_controller(restorer, controller));
  }

  ServedRow restore(const ServedRow& row) {
    const std::size_t size = row.dtype == DGAP_F32 ? 4 : 2;
    std::vector<std::byte> memory(row.logits.size() * size);
    for (std::size_t i = 0; i < row.logits.size(); ++i)
      std::memcpy(&memory[i * size], &row.logits[i], size);
    const auto width = static_cast<std::int64_t>(row.logits.size());
    const dgap_logits view = {memory.data(), row.dtype, 1,
                              width,         0,         static_cast<std::int64_t>(size)};
    const auto states = static_cast<std::int64_t>(hidden_.size());
    const dgap_logits hidden = {hidden_.data(), DGAP_F32, 1, states, 0, 4};
    const dgap_context* const context = context_.get();
    dgap_result scored{}, result{};
    check(dgap_restorer_score(restorer_.get(), &view, &scored));
    check(dgap_restorer_restore_with(restorer_.get(), &context, &hidden, &view, &result));
    if (std::memcmp(&scored, &result, sizeof result) != 0)
      throw base::FailedError("dgap_restorer_score says something else");

    ServedRow served{row.dtype, row.logits, result.verdict, result.window,
                     std::bit_cast<std::uint32_t>(result.risk)};
    for (std::size_t i = 0; i < row.logits.size(); ++i) {
      std::uint32_t bits = 0;
      std::memcpy(&bits, &memory[i * size], size);
      if (bits != row.logits[i]) served.restored[static_cast<int>(i)] = bits;
    }
    const auto next = static_cast<std::int32_t>(7 * dgap_context_length(context_.get()) % width);
    check(dgap_context_accept(context_.get(), &next, 1));
    return served;
  }

  std::uint64_t tau() const {
    return std::bit_cast<std::uint64_t>(dgap_controller_tau(controller_.get()));
  }

 private:
  static dgap_bundle* open(const std::filesystem::path& directory) {
    dgap_bundle* bundle = nullptr;
    check(dgap_bundle_open(directory.c_str(), &bundle));
    return bundle;
  }

  Owned<dgap_bundle> bundle_;
  Owned<dgap_restorer> restorer_{nullptr, &dgap_restorer_destroy};
  Owned<dgap_context> context_{nullptr, &dgap_context_destroy};
  Owned<dgap_controller> controller_{nullptr, &dgap_controller_destroy};
  std::vector<float> hidden_;
};

}  // namespace

Fixture read_fixture(const std::filesystem::path& file) {
  const json root = json::parse(base::read_file(file));
  Fixture fixture{root.at("precision"), root.at("text"), {}, root.at("online"), {}, 0};
  for (const std::uint32_t bits : split(root.at("hidden"), 8))
    fixture.hidden.push_back(std::bit_cast<float>(bits));
  fixture.tau = std::stoull(root.at("tau").get<std::string>(), nullptr, 16);
  for (const json& item : root.at("rows")) {
    ServedRow row{
        item.at("dtype"), {}, item.at("verdict"), item.at("window"), from_hex(item.at("risk"))};
    row.logits = split(item.at("logits"), digits(row.dtype));
    for (const auto& [id, bits] : item.at("restored").items())
      row.restored[std::stoi(id)] = from_hex(bits);
    fixture.rows.push_back(std::move(row));
  }
  return fixture;
}

void write_fixture(const std::filesystem::path& file, const Fixture& fixture) {
  std::vector<std::uint32_t> hidden;
  for (const float x : fixture.hidden) hidden.push_back(std::bit_cast<std::uint32_t>(x));
  json rows = json::array();
  for (const ServedRow& row : fixture.rows) {
    json restored = json::object();
    for (const auto& [id, bits] : row.restored)
      restored[std::to_string(id)] = hex(bits, digits(row.dtype));
    rows.push_back({{"dtype", row.dtype},
                    {"logits", join(row.logits, digits(row.dtype))},
                    {"verdict", row.verdict},
                    {"window", row.window},
                    {"risk", hex(row.risk, 8)},
                    {"restored", restored}});
  }
  const json root = {
      {"precision", fixture.precision}, {"text", fixture.text}, {"hidden", join(hidden, 8)},
      {"online", fixture.online},       {"rows", rows},         {"tau", hex(fixture.tau, 16)}};
  base::write_file_atomically(file, root.dump(1) + "\n");
}

Fixture serve(const std::filesystem::path& bundle, const Fixture& fixture) {
  Server server(bundle, fixture);
  Fixture served = fixture;
  for (ServedRow& row : served.rows) row = server.restore(row);
  served.tau = server.tau();
  return served;
}

}  // namespace dgap::test
