/// Demands HTTP Digest authentication (RFC 7616) of requests to a `LoopbackServer`, and checks it with code of its own.
///
/// ```swift
/// let authority = DigestAuthority(user: "Mufasa", password: "Circle of Life")
/// let server = try LoopbackServer { request, connection in
///   if try authority.admit(request, connection) { try connection.respond(text: "Welcome.") }
/// }
/// ```
///
/// A nonce is good for one server, its counts must be new. Beside the options nothing is stateful: every connection may use every nonce.
public final class DigestAuthority: Sendable {
  /// What is demanded.
  public struct Options: Sendable {
    /// The realm. Default "lupine".
    public var realm = "lupine"
    /// A challenge for each: `MD5`, `SHA-256` or `SHA-512-256`, perhaps with `-sess`. Default SHA-256. nil stands for a challenge without
    /// `algorithm`, which is MD5.
    public var algorithms: [String?] = ["SHA-256"]
    /// `qop`; nil for a challenge as of RFC 2069. Default `auth`.
    public var quality: String? = "auth"
    /// More parameters of every challenge, as they stand in the field: `userhash=true`.
    public var parameters = ""
    /// Value of `opaque`; nil leaves it out. Default some text with a quote and a backslash in it.
    public var opaque: String? = #"a "b\"#
    /// Uses of a nonce; the next one gets 401 with `stale=true`. Default unlimited.
    public var usesPerNonce = Int.max
    /// Uses of a nonce, after which `Authentication-Info` names the next one. Default never.
    public var usesBeforeNextNonce = Int.max
    /// Every answer is called stale. Default false.
    public var isNeverSatisfied = false
    /// More challenges, before ours: `Basic realm="x"`. Default none.
    public var otherChallenges: [String] = []

    /// The defaults.
    public init() {}
  }

  private struct State {
    var nonces = 0
    /// The counts that came with each nonce.
    var counts: [String: [UInt32]] = [:]
    /// How often each nonce was used, with a count or without.
    var uses: [String: Int] = [:]
    var admitted = 0
    var refusals: [String] = []
  }

  /// What is demanded.
  public let options: Options
  private let user: String
  private let password: String
  private let state = Monitor(State())

  /// Demands what `options` say, of one user.
  public init(user: String, password: String, options: Options = Options()) {
    self.user = user
    self.password = password
    self.options = options
  }

  /// The counts that came with each nonce, in the order of arrival; nonces are `nonce1`, `nonce2` and so on.
  public var nonceCounts: [String: [UInt32]] { state.withLock { $0.counts } }
  /// Requests admitted.
  public var admitted: Int { state.withLock { $0.admitted } }
  /// Why credentials were refused, in the order of arrival; missing ones are not listed.
  public var refusals: [String] { state.withLock { $0.refusals } }

  /// Checks a request, reading its body if the credentials cover it. False: it was answered with 401.
  ///
  /// Throws when the connection fails.
  public func admit(_ request: ServerRequest, _ connection: ServerConnection) throws(LoopbackError) -> Bool {
    try check(request, connection) != nil
  }

  /// The same; when the request is admitted, gives the fields that its response should have.
  public func check(
    _ request: ServerRequest, _ connection: ServerConnection
  ) throws(LoopbackError) -> ServerFields? {
    guard let text = request.fields.first("Authorization") else {
      try refuse(connection, isStale: false)
      return nil
    }
    do throws(Refusal) {
      let nonce = try verify(text, request) { () throws(LoopbackError) in try connection.readBody() }
      return state.withLock { state in
        state.admitted += 1
        guard state.uses[nonce] ?? 0 >= options.usesBeforeNextNonce else { return [:] }
        state.nonces += 1
        return ["Authentication-Info": "nextnonce=\"nonce\(state.nonces)\""]
      }
    } catch {
      if case .connection(let failure) = error { throw failure }
      state.withLock { $0.refusals.append(error.text) }
      try refuse(connection, isStale: error.isStale)
      return nil
    }
  }

  private enum Refusal: Error {
    case wrong(String)
    case stale
    case connection(LoopbackError)

    var isStale: Bool { if case .stale = self { true } else { false } }
    var text: String { if case .wrong(let text) = self { text } else { "stale" } }
  }

  private func refuse(_ connection: ServerConnection, isStale: Bool) throws(LoopbackError) {
    var fields = ServerFields()
    for other in options.otherChallenges { fields.append("WWW-Authenticate", other) }
    let nonce = state.withLock { state in
      state.nonces += 1
      return "nonce\(state.nonces)"
    }
    for algorithm in options.algorithms {
      var text = "Digest realm=\(Self.quoted(options.realm)), nonce=\"\(nonce)\""
      if let quality = options.quality { text += ", qop=\"\(quality)\"" }
      if let algorithm { text += ", algorithm=\(algorithm)" }
      if let opaque = options.opaque { text += ", opaque=\(Self.quoted(opaque))" }
      if isStale { text += ", stale=true" }
      if !options.parameters.isEmpty { text += ", " + options.parameters }
      fields.append("WWW-Authenticate", text)
    }
    try connection.respond(401, fields: fields, text: "Who are you?\n")
  }

  // MARK: The check

  private func verify(
    _ text: String, _ request: ServerRequest, _ body: () throws(LoopbackError) -> [UInt8]
  ) throws(Refusal) -> String {
    let values = try Self.parameters(text)
    func value(_ name: String) throws(Refusal) -> String {
      guard let value = values[name] else { throw .wrong("no \(name)") }
      return value
    }
    let algorithm = values["algorithm"]
    guard options.algorithms.contains(algorithm) else { throw .wrong("algorithm \(algorithm ?? "none")") }
    let isSession = algorithm?.hasSuffix("-sess") ?? false
    let hash = Self.function(algorithm)
    guard try value("realm") == options.realm else { throw .wrong("realm") }
    guard values["opaque"] == options.opaque else { throw .wrong("opaque") }
    guard try value("uri") == request.target else { throw .wrong("uri") }
    try checkUser(values, hash)
    let nonce = try value("nonce")
    var secret = try digest(hash, Array("\(user):\(options.realm):\(password)".utf8))
    if isSession { secret = try digest(hash, Array("\(secret):\(nonce):\(try value("cnonce"))".utf8)) }
    var what = "\(request.method):\(request.target)"
    var middle = ""
    if let quality = options.quality {
      let chosen = try value("qop")
      let offered = quality.split(separator: ",").map { String($0.trimmingSpaces) }
      guard offered.contains(chosen) else { throw .wrong("qop \(chosen)") }
      if chosen == "auth-int" {
        do throws(LoopbackError) {
          what += ":" + (try Self.hexadecimal(hash, try body()))
        } catch {
          throw .connection(error)
        }
      }
      middle = "\(try value("nc")):\(try value("cnonce")):\(chosen):"
    }
    let expected = try digest(hash, Array("\(secret):\(nonce):\(middle)\(try digest(hash, Array(what.utf8)))".utf8))
    guard try value("response") == expected else { throw .wrong("response") }
    if options.isNeverSatisfied { throw .stale }
    try use(nonce, values["nc"])
    return nonce
  }

  private func checkUser(_ values: [String: String], _ hash: Digest.Function) throws(Refusal) {
    if let extended = values["username*"] {
      guard extended.hasPrefix("UTF-8''"), percentDecoded(extended.dropFirst(7)) == user else {
        throw .wrong("username*")
      }
      return
    }
    var expected = user
    if values["userhash"] == "true" { expected = try digest(hash, Array("\(user):\(options.realm)".utf8)) }
    guard values["username"] == expected else { throw .wrong("username") }
  }

  private func use(_ nonce: String, _ count: String?) throws(Refusal) {
    let refusal = state.withLock { state -> Refusal? in
      // None may have been given out yet: then there is no range of them.
      guard let number = Int(nonce.dropFirst(5)), nonce.hasPrefix("nonce"), number >= 1, number <= state.nonces else {
        return .wrong("nonce")
      }
      var counts = state.counts[nonce] ?? []
      if let count {
        guard count.utf8.count == 8, let value = UInt32(count, radix: 16) else { return .wrong("nc \(count)") }
        guard !counts.contains(value) else { return .wrong("nc \(count) again") }
        counts.append(value)
      }
      let uses = state.uses[nonce] ?? 0
      guard uses < options.usesPerNonce else { return .stale }
      state.uses[nonce] = uses + 1
      state.counts[nonce] = counts
      return nil
    }
    if let refusal { throw refusal }
  }

  // MARK: Pieces

  private static func function(_ algorithm: String?) -> Digest.Function {
    switch algorithm?.split(separator: "-sess").first {
    case "SHA-256": .sha256
    case "SHA-512-256": .sha512Truncated
    default: .md5
    }
  }

  private func digest(_ hash: Digest.Function, _ bytes: [UInt8]) throws(Refusal) -> String {
    do throws(LoopbackError) {
      return try Self.hexadecimal(hash, bytes)
    } catch {
      throw .connection(error)
    }
  }

  private static func hexadecimal(_ hash: Digest.Function, _ bytes: [UInt8]) throws(LoopbackError) -> String {
    let digest = try Digest(hash)
    digest.add(bytes[...])
    return digest.finish()
  }

  private static func quoted(_ text: String) -> String {
    var result = "\""
    for scalar in text.unicodeScalars {
      if scalar == "\"" || scalar == "\\" { result += "\\" }
      result.unicodeScalars.append(scalar)
    }
    return result + "\""
  }

  /// `Digest name=value, name="value"`, strictly.
  private static func parameters(_ text: String) throws(Refusal) -> [String: String] {
    guard text.hasPrefix("Digest ") else { throw .wrong("scheme") }
    var rest = Array(text.unicodeScalars.dropFirst(7))[...]
    var result: [String: String] = [:]
    while !rest.isEmpty {
      var name = String.UnicodeScalarView()
      while let scalar = rest.popFirst(), scalar != "=" { name.append(scalar) }
      var value = String.UnicodeScalarView()
      if rest.first == "\"" {
        rest.removeFirst()
        while true {
          guard let scalar = rest.popFirst() else { throw .wrong("syntax") }
          if scalar == "\"" { break }
          guard let next = scalar == "\\" ? rest.popFirst() : scalar else { throw .wrong("syntax") }
          value.append(next)
        }
      } else {
        while let scalar = rest.first, scalar != "," {
          value.append(scalar)
          rest.removeFirst()
        }
      }
      guard result.updateValue(String(value), forKey: String(name)) == nil else { throw .wrong("\(name) twice") }
      guard rest.isEmpty || rest.starts(with: [",", " "]) else { throw .wrong("syntax") }
      rest = rest.dropFirst(2)
    }
    return result
  }
}
