// See report_page.h.
#include "run/report/report_page.h"

#include <string_view>

#include "json_text.h"
#include "run/report/report_script.h"

namespace ebb::cli {
namespace {

// Colours of light and dark in one place; everything else refers to them.
constexpr std::string_view kHead = R"html(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<meta name="color-scheme" content="light dark"><title>ebb report</title><style>
:root{--ground:#fff;--card:#f6f7f9;--text:#1c2024;--faint:#60646c;--line:#d9dce1;--parameter:#3b6fd4;
--gradient:#e0a000;
--optimizer:#e5604d;--activation:#2fa37c;--small:#9aa0a8;--file:#8a5bd6;--other:#2fa37c;--read:#3b6fd4;
--written:#e5604d;
--stall:#e0a000;--late:#3b6fd4;--unplanned:#e5604d;--fault:#8a5bd6;--no_frame:#e0a000;--flash_full:#1c2024;
--absent:#fff;
--below:#e8d3cf}
@media (prefers-color-scheme:dark){:root{--ground:#14161a;--card:#1d2025;--text:#e6e8eb;--faint:#9ba1a9;--line:#353a42;
--parameter:#6f9bf0;--gradient:#f0bd45;--optimizer:#f38374;--activation:#5cc9a4;--small:#777e88;--file:#b18cf0;
--other:#5cc9a4;--read:#6f9bf0;--written:#f38374;--stall:#f0bd45;--late:#6f9bf0;--unplanned:#f38374;--fault:#b18cf0;
--no_frame:#f0bd45;--flash_full:#e6e8eb;--absent:#14161a;--below:#4a2f2c}}
*{box-sizing:border-box}body{margin:0;background:var(--ground);color:var(--text);font:15px/1.45 system-ui,sans-serif}
main{max-width:1100px;margin:0 auto;padding:20px 16px 60px}h1{font-size:22px;margin:0}h2{font-size:17px;
margin:34px 0 4px}
code,.command{font-family:ui-monospace,monospace;overflow-wrap:anywhere}.faint,.command{color:var(--faint);
font-size:13px}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:10px;margin:18px 0}
.tile{background:var(--card);border-radius:8px;padding:10px 12px}.tile b{display:block;font-size:18px}
.advice{padding:0 0 0 20px}.advice li{margin:6px 0}svg{display:block;width:100%;touch-action:pan-y;user-select:none}
svg text{fill:var(--faint);font-size:12px}.legend span{display:inline-block;margin-right:14px;font-size:13px}
.legend i{display:inline-block;width:11px;height:11px;border-radius:2px;margin-right:5px}
.bar{display:grid;grid-template-columns:minmax(90px,34%) 1fr 76px;gap:8px;align-items:center;margin:3px 0;
font-size:13px}
.bar>div:first-child{overflow:hidden;text-overflow:ellipsis;white-space:nowrap;direction:rtl;text-align:right}
.bar>div:last-child{text-align:right;font-variant-numeric:tabular-nums}.track{display:flex;height:14px;
border-radius:3px;
overflow:hidden}.scroll{overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:13px}
th,td{text-align:left;padding:4px 8px;border-bottom:1px solid var(--line)}td.n,th.n{text-align:right;
white-space:nowrap}
#tip{position:fixed;pointer-events:none;background:var(--card);border:1px solid var(--line);border-radius:6px;
padding:6px 9px;font-size:12px;white-space:pre;display:none;z-index:9}
button{font:inherit;color:inherit;background:var(--card);border:1px solid var(--line);border-radius:6px;
padding:3px 10px}
@media print{button{display:none}}
</style></head><body><main id="page"></main><div id="tip"></div>
<script type="application/json" id="data">)html";

// Within a script element nothing may look like the end of one.
std::string harmless(const std::string& json) {
  std::string text;
  text.reserve(json.size());
  for (const char c : json) {
    if (c == '<') {
      text += "\\u003c";
    } else {
      text += c;
    }
  }
  return text;
}

}  // namespace

std::string report_file(const std::string& path, const nlohmann::ordered_json& data) {
  if (path.ends_with(".json")) return json_line(data) + "\n";
  std::string page(kHead);
  page += harmless(json_line(data));
  page += "</script>\n<script>\n";
  page += kReportScript;
  page += "</script></body></html>\n";
  return page;
}

}  // namespace ebb::cli
