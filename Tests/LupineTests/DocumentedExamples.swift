import Foundation
import Lupine
import LupineBase
import LupineTesting
import Testing

// The examples of Sources/Lupine/Lupine.docc, word for word: `.ci/check-examples` looks for them here.

struct User: Codable, Sendable, Equatable {
  var id: Int
  var name: String
}

struct Problem: Codable, Sendable, Equatable {
  var reason: String
}

final class ExampleAPI: HTTPSessionManager, @unchecked Sendable {
  override func request(
    _ method: HTTPRequest.Method, _ url: String, parameters: (any Sendable)? = nil, headers: [String: String]? = nil,
    timeout: Duration? = nil
  ) throws -> Request {
    var request = try super.request(method, url, parameters: parameters, headers: headers, timeout: timeout)
    request.fields[.accept] = "application/json"
    return request
  }

  func user(_ id: Int) async throws -> User {
    try await get("users/\(id)")
  }
}

@Suite(.timeLimit(.minutes(5))) struct DocumentedExamples {
  /// A site with users, photos, files and errors.
  private func withSite(
    tls: ServerTLS? = nil, _ body: (_ site: String, LoopbackServer) async throws -> Void
  ) async throws {
    let json: ServerFields = ["Content-Type": "application/json"]
    let server = try LoopbackServer(
      routes: [
        ServerRoute("GET", "/v1/users/7") { _, connection in
          try connection.respond(200, fields: json, text: #"{"id": 7, "name": "Ada"}"#)
        },
        ServerRoute("GET", "/v1/search") { request, connection in
          let text = "\(request.query("q") ?? "") \(request.query("page") ?? "")"
          try connection.respond(200, fields: json, text: #"{"asked": "\#(text)"}"#)
        },
        ServerRoute("GET", "/v1/page") { request, connection in
          let key = request.fields.first("X-Api-Key") ?? ""
          try connection.respond(200, fields: ["Content-Type": "text/html"], text: #"{"key": "\#(key)"}"#)
        },
        ServerRoute("POST", "/v1/users") { _, connection in
          try connection.respond(201, fields: json, body: connection.readBody())
        },
        ServerRoute("GET", "/v1/missing") { _, connection in
          try connection.respond(
            404, fields: ["Content-Type": "application/problem+json"], text: #"{"reason": "gone"}"#)
        },
        ServerRoute("GET", "/v1/file") { _, connection in
          try connection.respond(
            200, fields: ["Content-Type": "application/pdf"], body: Array(repeating: 7, count: 90_000))
        },
        ServerRoute("POST", "/v1/token") { _, connection in
          try connection.respond(200, fields: json, text: #"{"token": "abc"}"#)
        },
        ServerRoute("POST", "/v1/photos") { _, connection in
          let count = try connection.readBody().count
          try connection.respond(200, fields: json, text: #"{"id": \#(count), "name": "photo"}"#)
        },
      ], tls: tls)
    defer { server.shutdown() }
    try await body(server.url("/v1"), server)
  }

  @Test func gettingStarted() async throws {
    try await withSite { site, _ in
      let manager = try HTTPSessionManager(baseURL: site)
      let user = try await manager.get("users/7", as: User.self)
      print(user.name)
      #expect(user == User(id: 7, name: "Ada"))

      manager.requestSerializer = JSONRequestSerializer()
      let created: JSONValue = try await manager.post("users", parameters: User(id: 8, name: "Grace"))
      print(created["name"]?.stringValue ?? "nobody")
      #expect(created["id"]?.intValue == 8)

      let api = try ExampleAPI(baseURL: site)
      #expect(try await api.user(7).name == "Ada")
    }
  }

  @Test func errorsCarryWhatCame() async throws {
    try await withSite { site, _ in
      let manager = try HTTPSessionManager(baseURL: site)
      do {
        let user = try await manager.get("missing", as: User.self)
        print(user.name)
        Issue.record("a 404 was a success")
      } catch let error as SerializationError where error.contains(.unacceptableStatusCode) {
        let problem = try? error.body(as: Problem.self)
        print(error.response?.statusCode ?? 0, problem?.reason ?? "no reason")
        #expect(error.response?.statusCode == 404 && problem?.reason == "gone")
      } catch let error as SessionError {
        print(error.code, error.phase, error.requestBytesSent)
        throw error
      }
    }
  }

  @Test func closuresAsInAFNetworking() async throws {
    try await withSite { site, _ in
      let done = Locked<[String]>([])
      let manager = try HTTPSessionManager(baseURL: site)
      manager.completionQueue = DispatchQueue(label: "answers")
      manager.responseSerializer = JSONResponseSerializer()
      manager.get("users/7") { _, object in
        let user = object as? JSONValue
        done.withLock { $0.append(user?["name"]?.stringValue ?? "nobody") }
      } failure: { _, error in
        done.withLock { $0.append("\(error)") }
      }
      #expect(await until { done.withLock { $0 } == ["Ada"] })
    }
  }

  @Test func parameters() async throws {
    try await withSite { site, _ in
      let manager = try HTTPSessionManager(baseURL: site)
      let found: JSONValue = try await manager.get(
        "search", parameters: ["q": "swift", "page": 2] as [String: any Sendable])
      let query: JSONValue = ["q": "swift", "page": 2]
      let again: JSONValue = try await manager.get("search", parameters: query)
      #expect(found["asked"]?.stringValue == "swift 2" && again == found)
    }
  }

  @Test func headersAndMediaTypes() async throws {
    try await withSite { site, _ in
      let key = "k"
      let manager = try HTTPSessionManager(baseURL: site)
      manager.requestSerializer.base.setValue(key, forHeader: "X-Api-Key")
      var serializer = JSONResponseSerializer()
      serializer.acceptableContentTypes = ["application/json", "text/html"]
      manager.responseSerializer = serializer
      let page: JSONValue = try await manager.get("page")
      #expect(page["key"]?.stringValue == "k")
    }
  }

  @Test func download() async throws {
    try await withSite { site, _ in
      let folder = FileManager.default.temporaryDirectory.appending(path: "lupine-\(UUID().uuidString)")
      defer { try? FileManager.default.removeItem(at: folder) }
      let finished = Locked<URL?>(nil)
      let manager = try SessionManager()
      manager.completionQueue = DispatchQueue(label: "answers")
      let task = manager.downloadTask(
        with: try Request("\(site)/file"), responseSerializer: HTTPResponseSerializer(),
        options: [.createIntermediateDirectories, .overwriteExisting],
        progress: { print($0.completedUnitCount, $0.totalUnitCount) },
        destination: { _, response in folder.appending(path: response.suggestedFileName) }
      ) { _, url, error in
        print(url?.path ?? "no file", error.map { "\($0)" } ?? "no error")
        finished.withLock { $0 = url }
      }
      task.resume()
      #expect(await until { finished.withLock { $0 } != nil })
      let path = try #require(finished.withLock { $0 }).path
      #expect(FileManager.default.contents(atPath: path)?.count == 90_000)
    }
  }

  @Test func multipart() async throws {
    try await withSite { site, server in
      let photo = FileManager.default.temporaryDirectory.appending(path: "lupine-\(UUID().uuidString).png")
      try Data(repeating: 1, count: 70_000).write(to: photo)
      defer { try? FileManager.default.removeItem(at: photo) }
      var form = MultipartFormData()
      form.append(Data("Ada".utf8), name: "author")
      try form.append(fileURL: photo, name: "photo")
      var request = try Request("\(site)/photos", method: .post)
      form.apply(to: &request)

      let manager = try HTTPSessionManager(baseURL: site)
      let (answer, _) = try await manager.response(for: request, serializer: JSONResponseSerializer())
      print(answer?["id"]?.intValue ?? 0)
      #expect(answer?["id"]?.intValue.map(Int64.init) == form.contentLength)
      #expect(server.requestCount == 1)
    }
  }

  /// The authority of a site beside the system's.
  @Test func additionalRoots() async throws {
    let authority = try CertificateAuthority()
    let files = try authority.writeRoot()
    defer { files.remove() }
    let bundle = URL(filePath: files.certificatePath)
    try await withSite(tls: .minted(by: authority)) { site, _ in
      var configuration = SessionConfiguration()
      configuration.tls.additionalRoots = try TLSConfiguration.certificates(inPEM: [UInt8](Data(contentsOf: bundle)))
      let manager = try HTTPSessionManager(baseURL: site, configuration: configuration)
      let user = try await manager.get("users/7", as: User.self)
      #expect(user.name == "Ada")
    }
  }

  @Test func pins() async throws {
    let authority = try CertificateAuthority(commonName: "Example Root")
    let identity = try authority.issue(CertificateOrder(dnsNames: ["localhost"]))
    try await withSite(tls: ServerTLS(identity)) { site, _ in
      let (rootDER, certificateDER) = (authority.rootDER, identity.chainDER[0])
      let pin = try #require(PublicKeyPin(certificate: certificateDER)).description
      var configuration = SessionConfiguration.ephemeral
      configuration.tls.roots = .certificates([rootDER])
      let manager = try HTTPSessionManager(baseURL: site, configuration: configuration)
      try manager.setSecurityPolicy(SecurityPolicy(pinningMode: .publicKey, publicKeyPins: [pin]))
      let user = try await manager.get("users/7", as: User.self)
      #expect(user.id == 7)

      let wrong = "sha256/AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
      try manager.setSecurityPolicy(SecurityPolicy(pinningMode: .publicKey, publicKeyPins: [wrong]))
      do {
        _ = try await manager.get("users/7", as: User.self)
        Issue.record("a wrong pin was accepted")
      } catch let error as SessionError where error.code == .serverCertificateUntrusted {
        let reason = error.underlying as? SecurityPolicyError
        print(reason?.message ?? error.message)
        #expect(reason?.reason == .pinMismatch)
      }
    }
  }

  @Test func retries() async throws {
    try await withSite { site, _ in
      let token = "abc"
      let manager = try HTTPSessionManager(baseURL: site)
      manager.retryPolicy = RetryPolicy()
      manager.interceptors = [
        ClosureInterceptor(adapt: { request, _ in
          var request = request
          request.fields[.authorization] = "Bearer \(token)"
          return request
        })
      ]
      let user = try await manager.get("users/7", as: User.self)
      #expect(user.id == 7)
    }
  }

  @Test func tokensThatExpire() async throws {
    try await withSite { site, server in
      let accounts = try HTTPSessionManager(baseURL: site)
      let tokens = try TokenInterceptor(token: nil, origins: [site]) { expired in
        struct Grant: Decodable, Sendable { var token: String }
        return try await accounts.post("token", as: Grant.self).token
      }
      let manager = try HTTPSessionManager(baseURL: site)
      manager.interceptors = [tokens]
      let user = try await manager.get("users/7", as: User.self)
      #expect(user.id == 7)
      #expect(server.recordedRequests.map { $0.fields.first("Authorization") } == [nil, "Bearer abc"])
    }
  }

  @Test func events() async throws {
    let route = ServerRoute("GET", "/events") { request, connection in
      let type = request.fields.first("Accept") ?? ""
      try connection.respond(fields: ["Content-Type": type], body: Array("event: add\ndata: 7\n\n".utf8))
    }
    try await withManager([route]) { manager, _ in
      let (bytes, response) = try await manager.bytes(
        .get, "events", headers: ["Accept": "text/event-stream"], timeout: .seconds(86_400))
      for try await event in bytes.events { print(event.type, event.data, response.statusCode) }
      #expect(bytes.finalResponse != nil && response.mimeType == "text/event-stream")
    }
  }

  /// Waits, without sleeping, until something holds.
  private func until(_ holds: @Sendable () -> Bool) async -> Bool {
    let end = ContinuousClock.now + .seconds(60)
    while !holds() {
      if ContinuousClock.now > end { return false }
      await Task.yield()
    }
    return true
  }
}
