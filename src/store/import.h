// Import: one source becomes one published revision.
#pragma once

#include "store/context.h"
#include "store/source.h"

namespace steelyard::store {

/// The whole of an import (docs/architecture.md, "Life of an import"). Whatever happens before Commit leaves the record
/// IMPORTING with the token given back; the same call resumes it.
Result<ImportResult> run_import(Context& context, const ImportRequest& request, Source& source, Observer& observer,
                                const CancelFlag& cancel);

}  // namespace steelyard::store
