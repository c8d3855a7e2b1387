internal import HTTPTypes
internal import LupineRules
internal import LupineSession

/// What is sent: fields, body, and to whom who is asking is told.
extension BatchLine {
  /// In their order and case, duplicates included.
  static func headers(_ fields: BatchFields, _ member: String = "headers") throws(BatchRefusal) -> HTTPFields {
    let label = fields.label(member)
    let pairs = try fields.array(member) ?? []
    guard pairs.count <= fieldLimit else { throw BatchRefusal("\(label) has more than \(fieldLimit) fields") }
    var headers = HTTPFields()
    for pair in pairs {
      guard let parts = pair.array, parts.count == 2, let name = parts[0].string, let value = parts[1].string else {
        throw BatchRefusal("\(label) is an array of [name, value] pairs of strings")
      }
      do throws(BatchRefusal) {
        headers.append(try HTTPField.written(name, value))
      } catch {
        throw BatchRefusal("\(label): \(error.message)")
      }
    }
    return headers
  }

  static func secrets(_ fields: BatchFields) throws(BatchRefusal) -> Set<HTTPField.Name> {
    var secrets: Set<HTTPField.Name> = []
    for value in try fields.array("secrets") ?? [] {
      guard let name = value.string.flatMap({ HTTPField.Name($0) }) else {
        throw BatchRefusal("\"secrets\" is an array of names of header fields")
      }
      secrets.insert(name)
    }
    return secrets
  }

  static func body(_ fields: BatchFields) throws(BatchRefusal) -> Body {
    let text = try fields.string("body")
    let base64 = try fields.string("bodyBase64")
    let path = try fields.filePath("bodyFile")
    let count = [text, base64, path].count { $0 != nil }
    if let parts = try fields.objects("multipart") {
      guard count == 0 else { throw BatchRefusal("\"multipart\" and another body exclude each other") }
      return .form(try read(parts))
    }
    guard count <= 1 else { throw BatchRefusal("\"body\", \"bodyBase64\" and \"bodyFile\" exclude each other") }
    if let text { return .bytes(Array(text.utf8)) }
    if let path { return .file(path: path) }
    guard let base64 else { return .none }
    guard let bytes = Base64.decode(base64) else { throw BatchRefusal("\"bodyBase64\" is not Base64") }
    return .bytes(bytes)
  }

  /// What follows the body, announced in the request, whose secrets are marked before.
  static func trailers(
    _ fields: BatchFields, of body: Body, _ request: inout Request
  ) throws(BatchRefusal) -> HTTPFields {
    let trailers = try headers(fields, "trailers")
    guard !trailers.isEmpty else { return trailers }
    let isChunked = try fields.boolean("chunked")
    if body == .none, isChunked != true { throw BatchRefusal("\"trailers\" need a body, which they follow") }
    if isChunked == false {
      throw BatchRefusal("\"trailers\" follow a body in chunks, and \"chunked\" is false")
    }
    var length: String?
    if case .bytes(let bytes) = body, isChunked == nil { length = String(bytes.count) }
    if let announced = request.fields[.contentLength], announced != length {
      throw BatchRefusal("\"trailers\" follow a body in chunks, and \"headers\" has another Content-Length than it")
    }
    if let refusal = request.announce(trailers) { throw BatchRefusal("\"trailers\": \(refusal)") }
    return trailers
  }

  private static func read(_ parts: [[String: String]]) throws(BatchRefusal) -> [Part] {
    guard !parts.isEmpty else { throw BatchRefusal("\"multipart\" has no part") }
    var result: [Part] = []
    for part in parts { result.append(try read(part)) }
    return result
  }

  private static func read(_ members: [String: String]) throws(BatchRefusal) -> Part {
    var rest = members
    guard let name = rest.removeValue(forKey: "name") else {
      throw BatchRefusal("a part of \"multipart\" has a \"name\"")
    }
    let value = rest.removeValue(forKey: "value")
    let path = rest.removeValue(forKey: "file")
    let (fileName, type) = (rest.removeValue(forKey: "fileName"), rest.removeValue(forKey: "type"))
    guard rest.isEmpty, (value == nil) != (path == nil), path != nil || fileName == nil && type == nil, path != "-"
    else {
      throw BatchRefusal(
        "a part of \"multipart\" has \"name\" and \"value\", or \"name\", \"file\" and perhaps \"fileName\" and \"type\""
      )
    }
    guard let path else { return .value(name: name, value ?? "") }
    guard !BatchFields.hasNUL(path) else {
      throw BatchRefusal("a \"file\" of \"multipart\" has a NUL, which no path has")
    }
    guard type?.contains(where: \.isNewline) != true else {
      throw BatchRefusal("a \"type\" of \"multipart\" has a line end, which no media type has")
    }
    return .file(name: name, path: path, fileName: fileName, type: type)
  }

  /// No message repeats a value: they are secrets.
  static func credential(_ fields: BatchFields) throws(BatchRefusal) -> Credential? {
    var members = try fields.strings("auth")
    guard !members.isEmpty else { return nil }
    let label = fields.label("auth")
    let name = members.removeValue(forKey: "type") ?? "any"
    guard let type = AuthenticationType(rawValue: name) else {
      throw BatchRefusal("\(fields.label("auth.type")) is any, basic, digest or bearer")
    }
    let token = members.removeValue(forKey: "token")
    let user = members.removeValue(forKey: "user")
    let password = members.removeValue(forKey: "password")
    guard members.isEmpty else { throw BatchRefusal("\(label) has type, user, password and token, and nothing else") }
    if type == .bearer {
      guard let token, user == nil, password == nil else {
        throw BatchRefusal("\(label) of type bearer has a \"token\", and neither user nor password")
      }
      return .bearer(token, persistence: .none)
    }
    guard let user, token == nil else {
      throw BatchRefusal("\(label) of type \(type.rawValue) has a \"user\", and no token")
    }
    return type.credential(user: user, password: password ?? "")
  }

  /// `proxy` and `noProxy`. No message repeats a secret.
  static func proxy(
    _ fields: BatchFields, _ inheritedExceptions: () -> String
  ) throws(BatchRefusal) -> ProxyConfiguration? {
    let exceptions = try fields.string("noProxy")
    guard let members = try fields.object("proxy") else { return exceptions.map { .environmentExcept($0) } }
    try members.refuseOthers(than: ["url", "tunnel", "auth", "headers"], of: "\"proxy\"")
    guard let url = try members.string("url") else { throw BatchRefusal("\"proxy.url\" is missing") }
    var proxy: Proxy
    do throws(SessionError) {
      proxy = try Proxy(url)
    } catch {
      throw BatchRefusal("\"proxy.url\": \(error.message)", code: error.code.rawValue)
    }
    proxy.tunnelsPlaintext = try members.boolean("tunnel") ?? false
    if let credential = try credential(members) { proxy.credential = credential }
    proxy.connectFields = try headers(members)
    return .proxy(proxy, except: exceptions ?? inheritedExceptions())
  }
}
