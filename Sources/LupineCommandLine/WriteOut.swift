package import LupineSession

/// What `--write-out` prints after the transfer: text with variables of curl's names, of the last exchange.
package struct WriteOut: Sendable, Equatable {
  /// curl's names. Times are seconds since the task began, 0 for what did not happen, as on a connection that is used again.
  package enum Variable: String, CaseIterable, Sendable {
    case httpCode = "http_code"
    case responseCode = "response_code"
    case timeTotal = "time_total"
    case timeNameLookup = "time_namelookup"
    case timeConnect = "time_connect"
    case timeAppConnect = "time_appconnect"
    case timeStartTransfer = "time_starttransfer"
    case sizeDownload = "size_download"
    case redirects = "num_redirects"
    case effectiveURL = "url_effective"
    case remoteIP = "remote_ip"
    case contentType = "content_type"
  }

  package enum Part: Sendable, Equatable {
    case text(String)
    case variable(Variable)
  }

  /// What is known of a transfer, also of one that failed.
  package struct Facts: Sendable {
    package var url: String
    package var status: Int
    package var contentType: String
    package var metrics: TaskMetrics?

    package init(url: String = "", status: Int = 0, contentType: String = "", metrics: TaskMetrics? = nil) {
      self.url = url
      self.status = status
      self.contentType = contentType
      self.metrics = metrics
    }
  }

  /// Why a text is no format.
  package struct Refusal: Error, Sendable, Equatable {
    package let message: String
  }

  package private(set) var parts: [Part] = []

  /// Reads a format: `%{name}`, `%%`, and `\n`, `\t`, `\r`, `\\`; everything else stands for itself. By scalars: with a mark behind it a sign is another
  /// character.
  package init(_ format: String) throws(Refusal) {
    var rest = format.unicodeScalars[...]
    var text = String.UnicodeScalarView()
    while let scalar = rest.popFirst() {
      switch (scalar, rest.first) {
      case ("%", "%"?): text.append(rest.removeFirst())
      case ("%", "{"?):
        rest.removeFirst()
        guard let end = rest.firstIndex(of: "}") else {
          throw Refusal(message: "a \"%{\" without its \"}\"; \"%%\" is a percent sign")
        }
        let name = String(rest[..<end])
        guard let variable = Variable(rawValue: name) else { throw Self.unknown(name) }
        if !text.isEmpty { parts.append(.text(String(text))) }
        text = String.UnicodeScalarView()
        parts.append(.variable(variable))
        rest = rest[rest.index(after: end)...]
      case ("\\", let next?):
        guard let escaped = Self.escape(next) else {
          text.append(scalar)
          continue
        }
        text.append(escaped)
        rest.removeFirst()
      default: text.append(scalar)
      }
    }
    if !text.isEmpty { parts.append(.text(String(text))) }
  }

  /// What a letter stands for behind a backslash.
  private static func escape(_ letter: Unicode.Scalar) -> Unicode.Scalar? {
    switch letter {
    case "n": "\n"
    case "t": "\t"
    case "r": "\r"
    case "\\": "\\"
    default: nil
    }
  }

  private static func unknown(_ name: String) -> Refusal {
    let known = Variable.allCases.map { "%{\($0.rawValue)}" }.joined(separator: ", ")
    return Refusal(message: "\(BatchRefusal.quoted("%{\(name)}")) is no variable; there are \(known)")
  }

  /// - Parameter isForTerminal: what the server says cannot move the cursor then.
  package func text(_ facts: Facts, isForTerminal: Bool) -> String {
    parts.map { part in
      switch part {
      case .text(let text): return text
      case .variable(let variable):
        let value = Self.value(variable, facts)
        return isForTerminal ? TerminalText.escaped(value) : value
      }
    }.joined()
  }

  private static func value(_ variable: Variable, _ facts: Facts) -> String {
    let last = facts.metrics?.transactions.last
    func seconds(_ instant: Int64?) -> String {
      Self.seconds(nanoseconds: instant.map { max(0, $0 - (facts.metrics?.start ?? $0)) } ?? 0)
    }
    return switch variable {
    case .httpCode, .responseCode: digits(facts.status, 3)
    case .timeTotal: Self.seconds(nanoseconds: facts.metrics.map { nanoseconds($0.duration) } ?? 0)
    case .timeNameLookup: seconds(last?.resolveEnd)
    case .timeConnect: seconds(last?.connectEnd)
    case .timeAppConnect: seconds(last?.secureConnectionEnd)
    case .timeStartTransfer: seconds(last?.responseStart)
    case .sizeDownload: "\(last?.responseBodyBytes ?? 0)"
    case .redirects: "\(facts.metrics?.redirectCount ?? 0)"
    case .effectiveURL: facts.url
    case .remoteIP: last?.remoteAddress.map(Self.address) ?? ""
    case .contentType: facts.contentType
    }
  }

  /// Without the port and brackets; of a Unix-domain socket its path, as curl has it.
  private static func address(_ endpoint: String) -> String {
    let mark = "unix:".utf8
    if endpoint.utf8.starts(with: mark) { return String(Substring(endpoint.utf8.dropFirst(mark.count))) }
    guard let colon = endpoint.lastIndex(of: ":") else { return endpoint }
    return endpoint[..<colon].filter { $0 != "[" && $0 != "]" }
  }

  private static func nanoseconds(_ duration: Duration) -> Int64 {
    let (seconds, attoseconds) = duration.components
    return seconds * 1_000_000_000 + attoseconds / 1_000_000_000
  }

  /// With microseconds, as curl.
  private static func seconds(nanoseconds: Int64) -> String {
    let microseconds = Int(max(0, nanoseconds) / 1_000)
    return "\(microseconds / 1_000_000)." + digits(microseconds % 1_000_000, 6)
  }

  /// With zeros in front.
  private static func digits(_ value: Int, _ width: Int) -> String {
    let text = String(value)
    return String(repeating: "0", count: max(0, width - text.count)) + text
  }
}
