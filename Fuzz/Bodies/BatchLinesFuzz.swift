internal import HTTPTypes
internal import LupineCommandLine
internal import LupineRules
internal import LupineSession

/// Oracle: in whatever pieces, the lines are those of a plain reading of the whole, none longer than the limit. A line that is taken has only members that
/// are known, each once, and says what a reader of its own finds in them; whatever the order of its members, with and without those that are null, it
/// says the same. One that is refused says which member is why in a short line without controls, and repeats no secret.
///
/// The first byte chooses how long lines may be.
package enum BatchLinesFuzz {
  package static func run(bytes: [UInt8]) {
    guard let choice = bytes.first else { return }
    let text = Array(bytes.dropFirst())
    let limit = Int(choice) * 16
    let expected = plainLines(text, limit)
    for size in [1, 3, 64, max(1, text.count)] {
      precondition(lines(text, limit, piece: size) == expected, "other pieces make other lines")
    }
    for line in expected {
      if case .text(_, let bytes) = line { read(bytes) }
    }
  }

  // MARK: Lines

  private static func plainLines(_ text: [UInt8], _ limit: Int) -> [BatchLines.Line] {
    var lines: [BatchLines.Line] = []
    let parts = text.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
    for (index, part) in parts.enumerated() {
      guard part.count <= limit else {
        lines.append(.tooLong(number: index + 1))
        continue
      }
      var line = Array(part)
      if line.last == UInt8(ascii: "\r") { line.removeLast() }
      if line.contains(where: { $0 != 0x20 && $0 != 0x09 }) { lines.append(.text(number: index + 1, line)) }
    }
    return lines
  }

  private static func lines(_ text: [UInt8], _ limit: Int, piece size: Int) -> [BatchLines.Line] {
    var cutter = BatchLines(limit: limit)
    var lines: [BatchLines.Line] = []
    for start in stride(from: 0, to: text.count, by: size) {
      let piece = Array(text[start..<min(text.count, start + size)])
      var index = 0
      while let line = cutter.next(in: piece, from: &index) { lines.append(line) }
      precondition(index == piece.count, "a piece was not read to its end")
    }
    if let line = cutter.rest() { lines.append(line) }
    let more = cutter.rest()
    precondition(more == nil, "the end came twice")
    return lines
  }

  // MARK: One line

  private static func read(_ bytes: [UInt8]) {
    guard let json = try? BatchLine.json(bytes) else { return }
    let line: BatchLine
    do throws(BatchRefusal) {
      line = try BatchLine(json, inheritedExceptions: "inherited")
    } catch {
      return check(error, of: json)
    }
    guard case .object(let members) = json else { preconditionFailure("what is no object was taken") }
    precondition(Set(members.map { Array($0.name.utf8) }).count == members.count, "a member was taken twice")
    for member in members {
      let isKnown = BatchLine.names.contains { Array($0.utf8) == Array(member.name.utf8) }
      precondition(isKnown, "an unknown member was taken")
    }
    checkRequest(line, json)
    checkRest(line, json)
    let given = members.filter { $0.value != .null }
    for order in [given, given.reversed()] {
      guard let again = try? BatchLine(.object(order), inheritedExceptions: "inherited") else {
        preconditionFailure("what was taken is refused in another order")
      }
      precondition(isSame(line, again), "another order makes another request")
    }
  }

  private static func check(_ refusal: BatchRefusal, of json: JSONValue) {
    let message = refusal.message
    precondition(
      ["badRequest", "badURL", "badProxy", "badResumeData"].contains(refusal.code), "a code that nobody expects")
    precondition(message.utf8.count <= BatchRefusal.lengthLimit, "a message as long as its line")
    precondition(!message.unicodeScalars.contains(where: InvisibleText.isUnsafe), "a message that acts on terminals")
    guard case .object = json else { return precondition(message.hasPrefix("a request is an object")) }
    precondition(
      BatchLine.names.contains { message.contains("\"\($0)") } || message.contains(" is no member of "),
      "a refusal without a member")
    // Names are repeated, and schemes; a secret that is the same as one of them, or as words of ours, would be no finding.
    let urls = [json["url"]?.string, json["proxy"]?["url"]?.string].compactMap { $0?.lowercased() }
    let names = texts(of: json).names + [json["method"]?.string ?? ""]
    let repeated = names + fieldNames(json) + fieldNames(json["proxy"]) + urls
    for secret in secrets(of: json) where secret.utf8.count > 20 {
      guard message.contains(secret) else { continue }
      let isName = repeated.contains {
        $0.contains(secret) || BatchRefusal.quoted($0).contains(secret)
          || BatchRefusal.quoted(nameIn: $0).contains(secret)
      }
      if isName { continue }
      let isRepeated = Repetition.isThere(secret, in: message) {
        self.message(refusing: replacing(secret, by: $0, in: json))
      }
      precondition(!isRepeated, "a secret was repeated")
    }
  }

  /// What is said of a line that is refused.
  private static func message(refusing json: JSONValue) -> String? {
    do throws(BatchRefusal) {
      _ = try BatchLine(json, inheritedExceptions: "inherited")
      return nil
    } catch {
      return error.message
    }
  }

  /// The same line with other text wherever a secret stands.
  private static func replacing(_ secret: String, by other: String, in json: JSONValue) -> JSONValue {
    switch json {
    case .string(let text): text.utf8.elementsEqual(secret.utf8) ? .string(other) : json
    case .array(let values): .array(values.map { replacing(secret, by: other, in: $0) })
    case .object(let members):
      .object(members.map { JSONValue.Member($0.name, replacing(secret, by: other, in: $0.value)) })
    default: json
    }
  }

  private static func fieldNames(_ json: JSONValue?) -> [String] {
    ["headers", "trailers"].flatMap { json?[$0]?.array ?? [] }.compactMap { $0.array?.first?.string }
  }

  /// What no message may repeat: whoever is asking, what is sent, and what was there before.
  private static func secrets(of json: JSONValue) -> [String] {
    var secrets = ["body", "bodyBase64", "resumeFrom"].compactMap { json[$0]?.string }
    for value in [json["auth"], json["proxy"]?["auth"], json["multipart"]] {
      if let value { secrets += texts(of: value).strings }
    }
    for headers in [json["headers"], json["trailers"], json["proxy"]?["headers"]] {
      secrets += (headers?.array ?? []).compactMap { pair -> String? in
        guard let parts = pair.array, parts.count == 2 else { return nil }
        return parts[1].string
      }
    }
    return secrets
  }

  private static func texts(of json: JSONValue) -> (names: [String], strings: [String]) {
    switch json {
    case .string(let text): return ([], [text])
    case .array(let values):
      return values.reduce(into: ([], [])) { result, value in
        let found = texts(of: value)
        result.0 += found.names
        result.1 += found.strings
      }
    case .object(let members):
      return members.reduce(into: ([], [])) { result, member in
        let found = texts(of: member.value)
        result.0 += [member.name] + found.names
        result.1 += found.strings
      }
    default: return ([], [])
    }
  }

  // MARK: What a line says

  private static func checkRequest(_ line: BatchLine, _ json: JSONValue) {
    let request = line.request
    precondition(request.method.rawValue == json["method"]?.string ?? "GET", "another method")
    guard let parsed = try? URLReader.read(json["url"]?.string ?? "") else { preconditionFailure("a URL that is none") }
    precondition(request.urlString == parsed.requestString, "another URL")
    precondition(request.expectsContinue == pairs(json["headers"]).contains(where: asksForContinue))
    checkFields(request.fields, pairs(json["headers"]).filter { !asksForContinue($0) })
    checkTrailers(line, json)
    let secrets = (json["secrets"]?.array ?? []).map { ($0.string ?? "").lowercased() }
    precondition(Set(request.sensitiveFields.map(\.canonicalName)) == Set(secrets), "other secrets")
    checkCredential(request.credential, json["auth"])
    switch request.proxy {
    case .proxy(let proxy, let exceptions):
      precondition(exceptions == json["noProxy"]?.string ?? "inherited", "other exceptions")
      precondition(proxy.tunnelsPlaintext == json["proxy"]?["tunnel"]?.boolean ?? false, "another tunnel")
      checkFields(proxy.connectFields, pairs(json["proxy"]?["headers"]))
      if case .object(let members) = json["proxy"]?["auth"], !members.isEmpty {
        checkCredential(proxy.credential, json["proxy"]?["auth"])
      }
    case .environmentExcept(let exceptions):
      precondition(exceptions == json["noProxy"]?.string, "exceptions from nowhere")
    case nil: precondition(json["proxy"]?["url"] == nil && json["noProxy"]?.string == nil, "a proxy was lost")
    default: preconditionFailure("a proxy from nowhere")
    }
  }

  private static func pairs(_ headers: JSONValue?) -> [(name: String, value: [UInt8])] {
    (headers?.array ?? []).map { pair in
      let blanks: Set<UInt8> = [0x20, 0x09]
      let value = Array((pair.array?.last?.string ?? "").utf8.drop { blanks.contains($0) })
      let end = value.lastIndex { !blanks.contains($0) } ?? -1
      return (pair.array?.first?.string ?? "", Array(value.prefix(end + 1)))
    }
  }

  private static func asksForContinue(_ field: (name: String, value: [UInt8])) -> Bool {
    field.name.lowercased() == "expect" && String(decoding: field.value, as: UTF8.self).lowercased() == "100-continue"
  }

  private static func checkFields(_ fields: HTTPFields, _ wanted: [(name: String, value: [UInt8])]) {
    precondition(fields.count == wanted.count && fields.count <= BatchLine.fieldLimit, "other fields")
    for (field, wanted) in zip(fields, wanted) {
      precondition(field.name.rawName == wanted.name && Array(field.value.utf8) == wanted.value, "another field")
      precondition(wanted.value.allSatisfy { $0 != 0 && $0 != 0x0A && $0 != 0x0D }, "a field that ends early")
    }
  }

  /// Nothing that frames the request, or is a secret, stands behind it, and only behind chunks.
  private static func checkTrailers(_ line: BatchLine, _ json: JSONValue) {
    checkFields(line.trailers, pairs(json["trailers"]))
    guard !line.trailers.isEmpty else { return precondition(line.request.trailerNames.isEmpty, "announced in vain") }
    precondition(json["chunked"]?.boolean != false && (line.body != .none || line.isChunked), "behind no chunks")
    let names = Set(line.trailers.map(\.name))
    precondition(Set(line.request.trailerNames) == names, "others than the announced ones")
    let forbidden: [HTTPField.Name] = [.contentLength, .transferEncoding, .authorization, .cookie, .contentType]
    precondition(names.isDisjoint(with: forbidden), "a field that cannot follow")
    precondition(names.isDisjoint(with: line.request.sensitiveFields), "a secret behind the body")
  }

  private static func checkCredential(_ credential: Credential?, _ json: JSONValue?) {
    precondition(credential?.token == json?["token"]?.string, "another token")
    precondition(credential?.user == json?["user"]?.string, "another user")
    guard let credential, credential.token == nil else { return }
    precondition(credential.password == json?["password"]?.string ?? "", "another password")
    let type = json?["type"]?.string ?? "any"
    precondition(credential.isPreemptive == (type == "basic"), "a password that nobody asked for")
    precondition(
      credential.schemes == (type == "basic" ? .basic : type == "digest" ? .digest : .all), "other schemes")
  }

  private static func checkRest(_ line: BatchLine, _ json: JSONValue) {
    let settings = line.settings
    for (path, name) in [
      (settings.caFile, "caFile"), (settings.clientCertificate, "clientCert"), (settings.clientKey, "clientKey"),
      (settings.unixSocket, "unixSocket"), (settings.cache, "cache"), (line.file?.path, "outputFile"),
    ] {
      precondition(path == json[name]?.string && path?.utf8.contains(0) != true, "another path")
    }
    precondition(settings.pins == (json["pins"]?.array ?? []).map { $0.string ?? "" }, "other pins")
    precondition(settings.insecure == json["insecure"]?.boolean ?? false, "another trust")
    precondition(line.isChunked == json["chunked"]?.boolean ?? false, "another framing")
    if let bytes = line.file?.resumeData?.bytes {
      precondition(Base64.decode(json["resumeFrom"]?.string ?? "") == bytes, "other resume data")
    }
    switch line.body {
    case .none:
      precondition(["body", "bodyBase64", "bodyFile"].allSatisfy { json[$0]?.string == nil }, "a body was lost")
    case .bytes(let bytes):
      let text = json["body"]?.string.map { Array($0.utf8) }
      precondition(bytes == text ?? Base64.decode(json["bodyBase64"]?.string ?? ""), "another body")
    case .file(let path): precondition(path == json["bodyFile"]?.string && !path.utf8.contains(0), "another file")
    case .form(let parts): checkForm(parts, json["multipart"]?.array ?? [])
    }
  }

  private static func checkForm(_ parts: [BatchLine.Part], _ json: [JSONValue]) {
    precondition(parts.count == json.count && !parts.isEmpty, "a part was lost")
    for (part, json) in zip(parts, json) {
      switch part {
      case .value(let name, let value):
        precondition(name == json["name"]?.string && value == json["value"]?.string && json["file"] == nil)
      case .file(let name, let path, let fileName, let type):
        precondition(name == json["name"]?.string && path == json["file"]?.string && json["value"] == nil)
        precondition(fileName == json["fileName"]?.string && type == json["type"]?.string, "another file of a form")
        // Standard input is where the lines come from.
        precondition(path != "-" && !path.utf8.contains(0), "what is no file of a form")
      }
    }
  }

  private static func isSame(_ first: BatchLine, _ second: BatchLine) -> Bool {
    let (one, other) = (first.request, second.request)
    let isSameRequest =
      one.urlString == other.urlString && one.method == other.method && one.fields == other.fields
      && one.sensitiveFields == other.sensitiveFields && one.expectsContinue == other.expectsContinue
    let hasSameLimits =
      one.redirects == other.redirects && one.totalTimeout == other.totalTimeout
      && one.acceptsCompressedContent == other.acceptsCompressedContent
      && one.maximumBufferedBodySize == other.maximumBufferedBodySize
    let isSameRest =
      first.settings == second.settings && first.body == second.body && first.isChunked == second.isChunked
      && first.trailers == second.trailers && one.trailerNames == other.trailerNames
      && first.file?.path == second.file?.path && first.file?.resumeData?.bytes == second.file?.resumeData?.bytes
    return isSameRequest && hasSameLimits && isSameRest && one.credential == other.credential
      && isSame(one.proxy, other.proxy)
  }

  private static func isSame(_ first: ProxyConfiguration?, _ second: ProxyConfiguration?) -> Bool {
    switch (first, second) {
    case (nil, nil): true
    case (.proxy(let one, let exceptions), .proxy(let other, let others)): one == other && exceptions == others
    case (.environmentExcept(let one), .environmentExcept(let other)): one == other
    default: false
    }
  }
}
