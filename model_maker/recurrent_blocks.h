#pragma once

// The recurrent parts of a layer: all that they know of earlier tokens is a state of constant size.
//
// Their decays are set so that states remember for hundreds to thousands of tokens: a wrong state must change the text,
// even long after the token that made it wrong.

#include "model_maker/plan_builder.h"

namespace kvkeep::gguf {

// Each pair of functions adds keys "ssm.*" and the tensors of one layer, without the layer's norm.

// Mamba: each channel has a state of its own. Tensors "ssm_*".
void add_mamba_keys(PlanBuilder& plan);
// `with_norms`: time steps and state inputs are normalised, as in Jamba.
void add_mamba(PlanBuilder& plan, bool with_norms);

// Mamba 2: heads of channels share decays.
void add_mamba2_keys(PlanBuilder& plan);
void add_mamba2(PlanBuilder& plan);

// Gated delta net: a matrix per head, written at a key, read at a query.
void add_delta_net_keys(PlanBuilder& plan);
void add_delta_net(PlanBuilder& plan);

// Short convolution: the state is the last two inputs.
void add_short_convolution_keys(PlanBuilder& plan);
void add_short_convolution(PlanBuilder& plan);

}  // namespace kvkeep::gguf
