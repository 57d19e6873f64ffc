// The picture of the demonstration.
#pragma once

#include <string>

#include "relay/app/demo_canvas.h"
#include "relay/app/demo_stage.h"

namespace outbox {

// Made for 80 x 24; a larger terminal shows more of the past, a smaller one is cut off.
Canvas draw(const DemoView& view, const std::string& message, std::size_t columns, std::size_t rows,
            bool unicode);

// "4.2 s", "3 min 5 s". Shared with the plain story.
std::string for_people(std::chrono::duration<double> span);

}  // namespace outbox
