internal import LupineCommandLine
internal import LupineRules
internal import LupineSession

/// When what happened, as a waterfall: one bar for each phase of each exchange, all on one time axis.
struct TimingChart {
  struct Row: Equatable {
    var name: String
    /// Nanoseconds since the start of the task.
    var start: Int64
    var end: Int64
  }

  var style: Style
  var width: Int
  /// Whether URLs are told with the credentials and keys in them.
  var showsSecrets = false

  func text(_ metrics: TaskMetrics) -> String {
    guard let origin = metrics.transactions.first?.fetchStart else { return "" }
    let end = metrics.transactions.compactMap { $0.responseEnd ?? $0.responseStart ?? $0.requestEnd }.max() ?? origin
    let total = max(1, end - origin)
    var text = ""
    for transaction in metrics.transactions {
      text += heading(transaction)
      for row in Self.rows(transaction, origin: origin) { text += line(row, total: total) }
    }
    return text + style.paint("total", .bold) + "     " + Units.nanoseconds(total) + "\n"
  }

  private func heading(_ transaction: TransactionMetrics) -> String {
    var facts: [String] = []
    if let address = transaction.remoteAddress, !address.isEmpty { facts.append(address) }
    if transaction.isProxyConnection { facts.append("proxy") }
    if transaction.isReusedConnection { facts.append("connection reused") }
    if let version = transaction.tlsVersion {
      facts.append(
        [version, transaction.tlsCipher ?? "", transaction.isTLSResumed ? "resumed" : ""]
          .filter { !$0.isEmpty }.joined(separator: " "))
    }
    if transaction.retryCount > 0 { facts.append("sent \(transaction.retryCount + 1) times") }
    let url = showsSecrets ? transaction.urlString : SecretText.redacted(url: transaction.urlString)
    return style.paint(TerminalText.escaped("\(transaction.method) \(url)"), .bold) + "  "
      + style.paint(facts.joined(separator: ", "), .dim) + "\n"
  }

  /// The phases of an exchange that happened, on the axis of the whole task.
  static func rows(_ metrics: TransactionMetrics, origin: Int64) -> [Row] {
    metrics.phases.filter { $0.name != "total" }.map {
      Row(name: $0.name, start: $0.start - origin, end: $0.end - origin)
    }
  }

  private func line(_ row: Row, total: Int64) -> String {
    let room = max(10, min(100, width) - 24)
    let scale = Double(room) / Double(total)
    let start = min(room - 1, Int(Double(row.start) * scale))
    let length = max(1, min(room - start, Int((Double(row.end - row.start) * scale).rounded())))
    let bar =
      String(repeating: " ", count: start) + style.paint(String(repeating: "█", count: length), Self.colour(row.name))
      + String(repeating: " ", count: room - start - length)
    return "  \(Units.left(row.name, 10))\(bar) \(Units.right(Units.nanoseconds(row.end - row.start), 9))\n"
  }

  private static func colour(_ name: String) -> Style.Colour {
    switch name {
    case "wait": .dim
    case "resolve": .cyan
    case "connect": .blue
    case "proxy": .cyan
    case "tls": .magenta
    case "send": .yellow
    case "firstByte": .red
    default: .green
    }
  }
}
