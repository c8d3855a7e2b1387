internal import LupineWire

/// Why fields are not sent behind the body of a request.
package enum TrailerRefusal: Error, Equatable, Sendable {
  /// What it says is wanted before the body: how to frame, route, read or answer the message, or who is asking.
  case forbidden(name: String)
  /// A secret, by its name or as the caller marks it.
  case secret(name: String)
  /// It was not announced before the body.
  case notAnnounced(name: String)
  /// Its name or its value holds what no field can carry.
  case invalid(name: String)
  /// More fields than a receiver has to take.
  case tooMany(limit: Int)
  /// More bytes than a receiver has to take, line ends included.
  case tooLarge(limit: Int)
}

/// Which fields may follow the body of a request (RFC 9110 section 6.5, RFC 9112 section 7.1.2).
///
/// What our own parser leaves out of a response is not sent in a request, and neither is what asks for a condition or for a form of the answer. Secrets are
/// never trailers: a redirect to another origin would have to be announced, and hashed, without them. Nor is a `Referer`, which says less to such a one.
package enum TrailerRule {
  /// What is taken of a response unless the caller says otherwise.
  private static let limits = WireLimits()

  /// What speaks against announcing fields of these names; nil: nothing does.
  ///
  /// - Parameter isMarkedSensitive: the caller said that the field is a secret, whatever its name.
  package static func refusal(
    announcing names: [String], isMarkedSensitive: (String) -> Bool = { _ in false }
  ) -> TrailerRefusal? {
    guard names.count <= limits.trailerFields else { return .tooMany(limit: limits.trailerFields) }
    for name in names {
      if isForbidden(lowercased: name.lowercased()) { return .forbidden(name: name) }
      let isMarked = isMarkedSensitive(name)
      if OriginRule.strips(name, .sensitive, isMarkedSensitive: isMarked) { return .secret(name: name) }
      guard canBeWritten(name, "") else { return .invalid(name: name) }
    }
    return nil
  }

  /// What speaks against sending these fields behind a body; nil: nothing does.
  ///
  /// - Parameter names: what was announced, and not refused. Not all of it need come.
  package static func refusal(
    sending fields: [(name: String, value: String)], announced names: [String]
  ) -> TrailerRefusal? {
    guard fields.count <= limits.trailerFields else { return .tooMany(limit: limits.trailerFields) }
    let announced = Set(names.map { $0.lowercased() })
    // The empty line at the end, and of each field a colon, a space and the end of its line.
    var size = 2
    for (name, value) in fields {
      guard announced.contains(name.lowercased()) else { return .notAnnounced(name: name) }
      size += name.utf8.count + value.utf8.count + 4
      guard size <= limits.trailers else { return .tooLarge(limit: limits.trailers) }
      guard canBeWritten(name, value) else { return .invalid(name: name) }
    }
    return nil
  }

  private static func isForbidden(lowercased name: String) -> Bool {
    ForbiddenTrailers.refused.contains(name) || ForbiddenTrailers.dropped.contains(name) || name.hasPrefix("if-")
      || name == "accept" || name.hasPrefix("accept-") || name == "referer"
  }

  private static func canBeWritten(_ name: String, _ value: String) -> Bool {
    let fields: [(name: String, value: String)] = [(name, value)]
    var output: [UInt8] = []
    do throws(WireError) {
      try ChunkEncoder.end(trailers: fields, into: &output)
      return true
    } catch {
      return false
    }
  }
}
