/// Latency over percentile as an SVG picture, in HdrHistogram's manner: the rarer, the more room.
struct LatencyPlot {
  private static let width = 960.0
  private static let height = 560.0
  private static let left = 84.0
  private static let right = 930.0
  private static let top = 92.0
  private static let bottom = 468.0
  private static let colours = ["#2563eb", "#ea580c"]

  private let results: [LoadResult]
  /// Nines at the right edge: 3 is 99.9 %.
  private let nines: Double
  private let lowest: Double
  private let highest: Double

  init(_ results: [LoadResult]) {
    self.results = results.filter { $0.requests > 0 }
    let most = self.results.map { Double($0.requests) }.max() ?? 10
    nines = max(2, min(7, Self.nines(100 - 100 / most)))
    let minimum = self.results.map { Double($0.latencies.minimum) }.min() ?? 1_000
    let maximum = self.results.map { Double($0.latencies.maximum) }.max() ?? 1_000_000
    lowest = Self.log10(max(1, minimum)) - 0.05
    highest = max(Self.log10(max(1, maximum)) + 0.1, lowest + 0.5)
  }

  func svg() -> String {
    """
    <svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 \(Int(Self.width)) \(Int(Self.height))" font-family="system-ui, sans-serif">
    <style>
    .paper { fill: #ffffff } .ink { fill: #0f172a } .soft { fill: #64748b } .grid { stroke: #e2e8f0 }
    @media (prefers-color-scheme: dark) {
    .paper { fill: #0f172a } .ink { fill: #f1f5f9 } .soft { fill: #94a3b8 } .grid { stroke: #1e293b }
    }
    </style>
    <rect class="paper" width="100%" height="100%" rx="12"/>
    <text class="ink" x="\(Self.left)" y="40" font-size="20" font-weight="600">Latency by percentile</text>
    \(subtitle)
    \(verticalAxis)
    \(horizontalAxis)
    \(results.enumerated().map { curve($0.element, $0.offset) }.joined(separator: "\n"))
    \(results.enumerated().map { legend($0.element, $0.offset) }.joined(separator: "\n"))
    </svg>

    """
  }

  // MARK: Parts

  private var subtitle: String {
    guard let first = results.first else { return "" }
    let text = "\(first.url), \(first.connections) at a time"
    return #"<text class="soft" x="\#(Self.left)" y="64" font-size="14">\#(Self.escaped(text))</text>"#
  }

  private var verticalAxis: String {
    var text = ""
    for exponent in Int(lowest.rounded(.down))...Int(highest.rounded(.up)) {
      for factor in [1.0, 2.0, 5.0] {
        let position = Double(exponent) + Self.log10(factor)
        guard position >= lowest, position <= highest else { continue }
        var value = factor
        for _ in 0..<max(0, exponent) { value *= 10 }
        let y = y(position)
        text += #"<line class="grid" x1="\#(Self.left)" x2="\#(Self.right)" y1="\#(y)" y2="\#(y)"/>"#
        text += #"<text class="soft" x="\#(Self.left - 10)" y="\#(y)" dy="4" font-size="12" text-anchor="end">"#
        text += Units.nanoseconds(Int64(value)).replacing(".00 ", with: " ").replacing(".0 ", with: " ") + "</text>\n"
      }
    }
    return text
  }

  private var horizontalAxis: String {
    var text = ""
    let marks: [(String, Double)] = [
      ("0 %", 0), ("50 %", 50), ("90 %", 90), ("99 %", 99), ("99.9 %", 99.9), ("99.99 %", 99.99),
      ("99.999 %", 99.999), ("99.9999 %", 99.9999),
    ]
    for (name, percentile) in marks where Self.nines(percentile) <= nines + 0.01 {
      let x = x(percentile)
      text += #"<line class="grid" x1="\#(x)" x2="\#(x)" y1="\#(Self.top)" y2="\#(Self.bottom)"/>"#
      text +=
        #"<text class="soft" x="\#(x)" y="\#(Self.bottom + 24)" font-size="12" text-anchor="middle">\#(name)</text>"#
      text += "\n"
    }
    return text
  }

  private func curve(_ result: LoadResult, _ index: Int) -> String {
    var points = [(Self.left, y(Self.log10(Double(max(1, result.latencies.minimum)))))]
    for (percentile, value) in result.latencies.steps {
      points.append((x(percentile), y(Self.log10(Double(max(1, value))))))
    }
    let colour = Self.colours[index % Self.colours.count]
    let path = points.map { "\(Self.round($0.0)),\(Self.round($0.1))" }.joined(separator: " L")
    let last = points.last?.0 ?? Self.left
    return """
      <path d="M\(path) L\(Self.round(last)),\(Self.bottom) L\(Self.left),\(Self.bottom) Z" fill="\(colour)" opacity="0.08"/>
      <path d="M\(path)" fill="none" stroke="\(colour)" stroke-width="2.5" stroke-linejoin="round"/>
      """
  }

  private func legend(_ result: LoadResult, _ index: Int) -> String {
    let colour = Self.colours[index % Self.colours.count]
    let name = result.reusesConnections ? "connections reused" : "a new connection each"
    let rate = Units.count(Int(result.requestsPerSecond.rounded()))
    let median = Units.nanoseconds(Int64(clamping: result.latencies.value(atPercentile: 50)))
    let tail = Units.nanoseconds(Int64(clamping: result.latencies.value(atPercentile: 99)))
    let y = Self.bottom + 54 + Double(index) * 22
    let x = Self.left
    return """
      <circle cx="\(x + 6)" cy="\(y - 5)" r="6" fill="\(colour)"/>
      <text class="ink" x="\(x + 20)" y="\(y)" font-size="13">\(name): \(rate) requests/s, p50 \(median), p99 \(tail)</text>
      """
  }

  // MARK: Scales

  private func x(_ percentile: Double) -> Double {
    Self.round(Self.left + (Self.right - Self.left) * min(1, Self.nines(percentile) / nines))
  }

  private func y(_ exponent: Double) -> Double {
    Self.round(Self.bottom - (Self.bottom - Self.top) * (exponent - lowest) / (highest - lowest))
  }

  /// 90 is 1, 99 is 2, and so on.
  static func nines(_ percentile: Double) -> Double {
    percentile >= 100 ? .infinity : -log10(1 - max(0, percentile) / 100)
  }

  private static func round(_ value: Double) -> Double { (value * 10).rounded() / 10 }

  private static func log10(_ value: Double) -> Double { System.log10(value) }

  private static func escaped(_ text: String) -> String {
    text.replacing("&", with: "&amp;").replacing("<", with: "&lt;").replacing(">", with: "&gt;")
  }
}
