#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

/// How the report shows the numbers of evaluation.json. Private to evaluator/.
namespace dgap::evaluator {

/// A number of evaluation.json by path ("restored/kl"), NaN where it is null or absent.
double at(const nlohmann::json& object, const std::string& path);

std::string fixed(double value, int digits);
/// KL spans four orders of magnitude: three significant digits.
std::string significant(double value);
std::string percent(double share, int digits = 1);
std::string one_digit(double value);
std::string three_digits(double value);
std::string share(double value);

/// A table cell with its 95 % interval as a title.
std::string with_interval(const nlohmann::json& entry, const nlohmann::json& interval,
                          const std::string& path, std::string (*format)(double));
std::string row(const std::vector<std::string>& cells, const char* tag);

}  // namespace dgap::evaluator
