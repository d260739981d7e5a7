// Whether a source is what a revision holds already.
#pragma once

#include "formats/checkpoint.h"
#include "formats/stored_manifest.h"
#include "store/context.h"
#include "store/progress_meter.h"
#include "store/source.h"
#include "store/stop_signal.h"

namespace steelyard::store {

/// Compares names, kinds and sizes, and where those are equal the SHA-256 of every file; nothing is written. Stops at
/// the first difference. The errors are the source's, or why it was stopped.
Result<bool> has_content_of(Context& context, Source& source, const formats::CheckpointPlan& plan,
                            const formats::StoredManifest& manifest, StopSignal& stop, ProgressMeter& progress);

}  // namespace steelyard::store
