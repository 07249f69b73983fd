#pragma once
#include <gtest/gtest.h>

#include "schemas/trace/trace.hpp"

namespace dgap::testing {

inline void expect_equal(const schemas::TraceUnit& a, const schemas::TraceUnit& b) {
  EXPECT_EQ(a.book, b.book);
  EXPECT_EQ(a.source, b.source);
  EXPECT_EQ(a.domain, b.domain);
  EXPECT_EQ(a.split, b.split);
  EXPECT_EQ(a.context, b.context);
  EXPECT_EQ(a.start, b.start);
  EXPECT_EQ(a.steps, b.steps);
  EXPECT_EQ(a.first_step, b.first_step);
  EXPECT_EQ(a.first_token, b.first_token);
  EXPECT_EQ(a.text_sha256, b.text_sha256);
}

inline void expect_equal(const schemas::ReferenceColumns& a, const schemas::ReferenceColumns& b) {
  EXPECT_EQ(a.lse, b.lse);
  EXPECT_EQ(a.entropy, b.entropy);
  EXPECT_EQ(a.target_logit, b.target_logit);
  EXPECT_EQ(a.top_ids, b.top_ids);
  EXPECT_EQ(a.top_logits, b.top_logits);
  EXPECT_EQ(a.candidate_first, b.candidate_first);
  EXPECT_EQ(a.candidate_ids, b.candidate_ids);
  EXPECT_EQ(a.candidate_logits, b.candidate_logits);
  EXPECT_EQ(a.logits, b.logits);
}

inline void expect_equal(const schemas::PrecisionColumns& a, const schemas::PrecisionColumns& b) {
  EXPECT_EQ(a.lse, b.lse);
  EXPECT_EQ(a.entropy, b.entropy);
  EXPECT_EQ(a.target_logit, b.target_logit);
  EXPECT_EQ(a.served_lse, b.served_lse);
  EXPECT_EQ(a.served_entropy, b.served_entropy);
  EXPECT_EQ(a.kl, b.kl);
  EXPECT_EQ(a.top_ids, b.top_ids);
  EXPECT_EQ(a.top_logits, b.top_logits);
  EXPECT_EQ(a.top_reference_logits, b.top_reference_logits);
  EXPECT_EQ(a.top_reference_mass_before, b.top_reference_mass_before);
  EXPECT_EQ(a.candidate_ranks, b.candidate_ranks);
  EXPECT_EQ(a.candidate_logits, b.candidate_logits);
  EXPECT_EQ(a.hidden, b.hidden);
  EXPECT_EQ(a.logits, b.logits);
}

inline void expect_equal(const schemas::PrecisionInfo& a, const schemas::PrecisionInfo& b) {
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.scheme_json, b.scheme_json);
  EXPECT_EQ(a.bits_per_element_key, b.bits_per_element_key);
  EXPECT_EQ(a.bits_per_element_value, b.bits_per_element_value);
  EXPECT_EQ(a.total_bits_per_element_key, b.total_bits_per_element_key);
  EXPECT_EQ(a.total_bits_per_element_value, b.total_bits_per_element_value);
}

inline void expect_equal(const schemas::TracePart& a, const schemas::TracePart& b) {
  EXPECT_EQ(a.header, b.header);
  EXPECT_EQ(a.config_yaml, b.config_yaml);
  EXPECT_EQ(a.top, b.top);
  ASSERT_EQ(a.units.size(), b.units.size());
  for (std::size_t i = 0; i < a.units.size(); ++i) expect_equal(a.units[i], b.units[i]);
  EXPECT_EQ(a.tokens, b.tokens);
  EXPECT_EQ(a.step_unit, b.step_unit);
  EXPECT_EQ(a.step_position, b.step_position);
  EXPECT_EQ(a.step_target, b.step_target);
  expect_equal(a.reference, b.reference);
  ASSERT_EQ(a.precisions.size(), b.precisions.size());
  ASSERT_EQ(a.columns.size(), b.columns.size());
  for (std::size_t i = 0; i < a.columns.size(); ++i) {
    expect_equal(a.precisions[i], b.precisions[i]);
    expect_equal(a.columns[i], b.columns[i]);
  }
}

}  // namespace dgap::testing
