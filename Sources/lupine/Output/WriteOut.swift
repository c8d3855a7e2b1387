internal import LupineSession
internal import LupineWire

/// What `--write-out` prints after the transfer: text with variables of curl's names, of the last exchange.
struct WriteOut: Sendable, Equatable {
  /// curl's names. Times are seconds since the task began, 0 for what did not happen, as on a connection that is used again.
  enum Variable: String, CaseIterable, Sendable {
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

  enum Part: Sendable, Equatable {
    case text(String)
    case variable(Variable)
  }

  /// What is known of a transfer, also of one that failed.
  struct Facts: Sendable {
    var url = ""
    var status = 0
    var contentType = ""
    var metrics: TaskMetrics?
  }

  private(set) var parts: [Part] = []

  /// Reads a format: `%{name}`, `%%`, and `\n`, `\t`, `\r`, `\\`; everything else stands for itself.
  init(_ format: String) throws(CommandFailure) {
    var rest = Substring(format)
    var text = ""
    while let character = rest.popFirst() {
      switch (character, rest.first) {
      case ("%", "%"): text.append(rest.removeFirst())
      case ("%", "{"):
        rest.removeFirst()
        guard let end = rest.firstIndex(of: "}") else {
          throw .misuse("--write-out: a \"%{\" without its \"}\"; \"%%\" is a percent sign")
        }
        guard let variable = Variable(rawValue: String(rest[..<end])) else { throw Self.unknown(rest[..<end]) }
        if !text.isEmpty { parts.append(.text(text)) }
        text = ""
        parts.append(.variable(variable))
        rest = rest[rest.index(after: end)...]
      case ("\\", .some(let next)):
        guard let escaped = ["n": "\n", "t": "\t", "r": "\r", "\\": "\\"][next] as Character? else {
          text.append(character)
          continue
        }
        text.append(escaped)
        rest.removeFirst()
      default: text.append(character)
      }
    }
    if !text.isEmpty { parts.append(.text(text)) }
  }

  private static func unknown(_ name: Substring) -> CommandFailure {
    let known = Variable.allCases.map { "%{\($0.rawValue)}" }.joined(separator: ", ")
    return .misuse("--write-out knows no \"%{\(name)}\"; there are \(known)")
  }

  /// - Parameter isForTerminal: what the server says cannot move the cursor then.
  func text(_ facts: Facts, isForTerminal: Bool) -> String {
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
    case .httpCode, .responseCode: Units.digits(facts.status, 3)
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

  /// Without the port and brackets.
  private static func address(_ endpoint: String) -> String {
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
    return "\(microseconds / 1_000_000)." + Units.digits(microseconds % 1_000_000, 6)
  }
}

extension WriteOut.Facts {
  init(_ response: Response, _ metrics: TaskMetrics?) {
    self.init(
      url: response.urlString, status: response.statusCode,
      contentType: response.head.fields.first(named: "content-type") ?? "", metrics: metrics)
  }

  /// Of a transfer that failed, as far as it came.
  ///
  /// - Parameter response: the head that came, for an error that knows of none.
  init(_ error: any Error, response: Response?, url: String) {
    if let refusal = error as? Download.Refusal {
      self.init(refusal.response, refusal.metrics ?? refusal.response.metrics)
    } else if let error = error as? SessionError, let response = error.response {
      self.init(response, error.metrics)
    } else if let response {
      self.init(response, (error as? SessionError)?.metrics ?? response.metrics)
    } else {
      self.init(url: url, metrics: (error as? SessionError)?.metrics)
    }
  }
}
