import Foundation
import Lupine
import LupineBase
import LupineTesting
import Testing

// The examples of Docs/Recipes.md, word for word: `.ci/check-examples` looks for them here.

private struct Page: Codable, Sendable {
  var users: [User]
  var next: Int?
}

private struct Photo: Codable, Sendable {
  var id: Int
}

private struct NotALog: Error {}

func followEvents(of manager: HTTPSessionManager) async throws {
  var (lastEventID, wait) = ("", Duration.seconds(3))
  while true {
    do {
      var headers = ["Accept": "text/event-stream"]
      if !lastEventID.isEmpty { headers["Last-Event-ID"] = lastEventID }
      let (bytes, _) = try await manager.bytes(.get, "events", headers: headers, timeout: .seconds(86_400))
      for try await event in bytes.events {
        (lastEventID, wait) = (event.lastEventID, event.retry ?? wait)
        print(event.type, event.data)
      }
    } catch let error as SessionError where error.code != .cancelled {
      print(error)
    }
    try await Task.sleep(for: wait)
  }
}

@Suite(.timeLimit(.minutes(5))) struct DocumentedRecipes {
  private static let json: ServerFields = ["Content-Type": "application/json"]

  private func withSite(
    tls: ServerTLS? = nil, _ routes: [ServerRoute] = [], _ body: (_ site: String, LoopbackServer) async throws -> Void
  ) async throws {
    let user = ServerRoute("GET", "/v1/users/7") { _, connection in
      try connection.respond(200, fields: Self.json, text: #"{"id": 7, "name": "Ada"}"#)
    }
    let server = try LoopbackServer(routes: routes + [user], tls: tls)
    defer { server.shutdown() }
    try await body(server.url("/v1"), server)
  }

  @Test func timeLimits() async throws {
    try await withSite { site, _ in
      var configuration = SessionConfiguration()
      configuration.connectTimeout = .seconds(2)
      configuration.timeoutIntervalForResource = .seconds(30)
      let session = try Session(configuration)
      var request = try Request("\(site)/users/7")
      request.totalTimeout = .seconds(5)
      let (body, _) = try await session.data(for: request)
      #expect(!body.isEmpty)
    }
  }

  @Test func cancelling() async throws {
    let routes = [
      ServerRoute("GET", "/v1/slow") { _, connection in _ = try connection.stall(until: nil) }
    ]
    try await withSite(routes) { site, _ in
      let session = try Session()
      let call = Task { try await session.data(from: "\(site)/slow") }
      call.cancel()
      do {
        _ = try await call.value
      } catch let error as SessionError where error.code == .cancelled {
        print("nobody waits any more")
      }
      await #expect(throws: SessionError.self) { _ = try await call.value }
    }
  }

  @Test func oneSessionForEachUser() async throws {
    let configuration = SessionConfiguration.ephemeral
    let session = try Session(configuration)
    #expect(session.configuration.cookieStorage !== CookieStorage.shared)
    #expect(session.configuration.credentialStorage !== CredentialStorage.shared)
    // Each has storages of its own, also of the same configuration.
    #expect(SessionConfiguration.ephemeral.cookieStorage !== configuration.cookieStorage)
  }

  @Test func logIn() async throws {
    let routes = [
      ServerRoute("POST", "/v1/login") { _, connection in
        let fields: ServerFields = ["Set-Cookie": "csrf=t0ken; Path=/"]
        try connection.respond(204, fields: fields)
      },
      ServerRoute("POST", "/v1/profile") { request, connection in
        let isGenuine =
          request.fields.first("X-CSRF-Token") == "t0ken" && request.fields.first("Cookie") == "csrf=t0ken"
        try connection.respond(isGenuine ? 200 : 403, fields: Self.json, text: #"{"changed": true}"#)
      },
    ]
    try await withSite(routes) { site, _ in
      let password = "secret"
      let manager = try HTTPSessionManager(baseURL: site, configuration: .ephemeral)
      let _: Data = try await manager.post("login", parameters: ["user": "ada", "password": password])
      let token = manager.session.configuration.cookieStorage?.cookies.first { $0.name == "csrf" }?.value
      let changed: JSONValue = try await manager.post("profile", headers: ["X-CSRF-Token": token ?? ""])
      #expect(changed["changed"]?.boolValue == true)
    }
  }

  @Test func formsAndFiles() async throws {
    let routes = [
      ServerRoute("POST", "/v1/notes") { _, connection in
        let form = String(decoding: try connection.readBody(), as: UTF8.self)
        try connection.respond(form == "colour=green&text=hello" ? 204 : 400)
      },
      ServerRoute("POST", "/v1/photos") { _, connection in
        let form = String(decoding: try connection.readBody(), as: UTF8.self)
        let isWhole = form.contains("name=\"album\"") && form.contains("a picture")
        try connection.respond(200, fields: Self.json, text: #"{"id": \#(isWhole ? 9 : 0)}"#)
      },
    ]
    let folder = FileManager.default.temporaryDirectory.appending(path: "lupine-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: false)
    defer { try? FileManager.default.removeItem(at: folder) }
    let file = folder.appending(path: "photo.jpeg")
    try Data("a picture".utf8).write(to: file)
    try await withSite(routes) { site, _ in
      let manager = try HTTPSessionManager(baseURL: site)
      _ = try await manager.post("notes", as: EmptyResponse.self, parameters: ["text": "hello", "colour": "green"])
      let photo = try await manager.post(
        "photos", as: Photo.self, parameters: ["album": "7"],
        progress: { print($0.completedUnitCount, $0.totalUnitCount) }
      ) { form in
        try form.append(fileURL: file, name: "photo")
      }
      #expect(photo.id == 9)
    }
  }

  @Test func manyAtOnce() async throws {
    let (running, most) = (Locked(0), Locked(0))
    let areAllHere = try Latch()
    let routes = [
      ServerRoute("GET", "/v1/item") { _, connection in
        let count = running.withLock { running in
          running += 1
          return running
        }
        most.withLock { $0 = max($0, count) }
        if count == 8 { areAllHere.release() }
        _ = areAllHere.wait(seconds: 60)
        // Before the answer, upon which the next request may be here.
        running.withLock { $0 -= 1 }
        try connection.respond(200, text: "item")
      }
    ]
    try await withSite(routes) { site, _ in
      var configuration = SessionConfiguration()
      configuration.maximumConnectionsPerHost = 50
      let session = try Session(configuration)
      let urls = (0..<50).map { "\(site)/item?\($0)" }
      let bodies = try await withThrowingTaskGroup(of: Int.self) { group in
        var (next, sizes) = (0, [Int]())
        while next < urls.count || !group.isEmpty {
          while next < urls.count, next - sizes.count < 8 {
            let url = urls[next]
            next += 1
            group.addTask { try await session.data(from: url).0.count }
          }
          if let size = try await group.next() { sizes.append(size) }
        }
        return sizes
      }
      #expect(bodies == Array(repeating: 4, count: 50) && most.withLock { $0 } == 8)
    }
  }

  @Test func pages() async throws {
    let routes = [
      ServerRoute("GET", "/v1/users") { request, connection in
        let page = request.number("page") ?? 0
        let next = page < 3 ? ", \"next\": \(page + 1)" : ""
        try connection.respond(
          200, fields: Self.json, text: #"{"users": [{"id": \#(page), "name": "user \#(page)"}]\#(next)}"#)
      }
    ]
    try await withSite(routes) { site, _ in
      let manager = try HTTPSessionManager(baseURL: site)
      var users: [User] = []
      var page: Int? = 1
      while let number = page {
        let answer: Page = try await manager.get("users", parameters: ["page": number])
        users += answer.users
        page = answer.next
      }
      #expect(users.map(\.id) == [1, 2, 3])
    }
  }

  @Test func pagesOfLinks() async throws {
    let routes = [
      ServerRoute("GET", "/v1/users") { request, connection in
        let page = request.number("page") ?? 1
        var fields = Self.json
        let next = page < 3 ? "?page=\(page + 1)" : "http://elsewhere.test/v1/users?page=4"
        fields.append("Link", "<?page=1>; rel=\"first\", <\(next)>; rel=\"next\"")
        try connection.respond(200, fields: fields, text: #"[{"id": \#(page), "name": "user \#(page)"}]"#)
      }
    ]
    try await withSite(routes) { site, _ in
      let manager = try HTTPSessionManager(baseURL: site)
      var users: [User] = []
      var next: String? = "users"
      while let url = next {
        let (page, response) = try await manager.response(.get, url, as: [User].self)
        users += page
        // The server chooses the URL. What this manager sends along, a token for example, is for its own host alone.
        next = response.link("next").flatMap { $0.staysAtOrigin ? $0.urlString : nil }
      }
      #expect(users.map(\.id) == [1, 2, 3])
    }
  }

  @Test func tryAgain() async throws {
    try await withSite { site, _ in
      let manager = try HTTPSessionManager(baseURL: site)
      var policy = RetryPolicy()
      policy.maximumAttempts = 5
      manager.retryPolicy = policy
      let user = try await manager.get("users/7", as: User.self)
      #expect(user.id == 7)
    }
  }

  @Test func whoIsAsking() async throws {
    let routes = [
      ServerRoute("GET", "/v1/private") { request, connection in
        if request.fields.first("Authorization") == "Basic YWRhOnNlY3JldA==" {
          try connection.respond(200, text: "Welcome.")
        } else {
          try connection.respond(401, fields: ["WWW-Authenticate": "Basic realm=\"private\""], text: "Who are you?")
        }
      }
    ]
    let password = "secret"
    try await withSite(routes) { site, _ in
      let session = try Session(.ephemeral)
      var request = try Request("\(site)/private")
      request.credential = .password(user: "ada", password: password)
      let (body, _) = try await session.data(for: request)
      #expect(String(decoding: body, as: UTF8.self) == "Welcome.")
    }
    try await withSite(routes) { site, _ in
      let storage = CredentialStorage()
      try storage.set(.password(user: "ada", password: password), for: ProtectionSpace(site))
      var configuration = SessionConfiguration()
      configuration.credentialStorage = storage
      let session = try Session(configuration)
      let (body, _) = try await session.data(from: "\(site)/private")
      #expect(String(decoding: body, as: UTF8.self) == "Welcome.")
    }
  }

  @Test func lookAtARequest() async throws {
    let session = try Session()
    let request = try Request("http://localhost/users/7")
    print(request.curlCommand(configuration: session.configuration))
    #expect(request.curlCommand(configuration: session.configuration).contains("http://localhost/users/7"))
  }

  @Test func streams() async throws {
    let routes = [
      ServerRoute("GET", "/v1/log") { _, connection in
        try connection.respond(200, text: "fine\nerror 1\nfine\nerror 2\n")
      }
    ]
    try await withSite(routes) { site, _ in
      let session = try Session()
      let (bytes, response) = try await session.bytes(for: Request("\(site)/log"))
      guard response.statusCode == 200 else { throw NotALog() }
      for try await line in bytes.lines where line.hasPrefix("error") { print(line) }
      #expect(bytes.finalResponse?.statusCode == 200)
    }
  }

  /// The stream is asked for again behind its last event, until nobody wants it any more.
  @Test func eventsAgain() async throws {
    let asked = Locked<[String]>([])
    let routes = [
      ServerRoute("GET", "/v1/events") { request, connection in
        let identifier = request.fields.first("Last-Event-ID") ?? ""
        let count = asked.withLock { asked in
          asked.append(identifier)
          return asked.count
        }
        guard count < 3 else {
          _ = try connection.stall(until: nil)
          return
        }
        let event = "retry: 1\nid: \(count)\ndata: 7\n\n"
        try connection.respond(fields: ["Content-Type": "text/event-stream"], body: Array(event.utf8))
      }
    ]
    try await withSite(routes) { site, _ in
      let manager = try HTTPSessionManager(baseURL: site)
      let call = Task { try await followEvents(of: manager) }
      while asked.withLock({ $0.count }) < 3 { await Task.yield() }
      call.cancel()
      let error = await #expect(throws: SessionError.self) { try await call.value }
      #expect(error?.code == .cancelled)
    }
    #expect(asked.withLock { $0 } == ["", "1", "2"])
  }

  @Test func downloadsThatGoOn() async throws {
    let folder = FileManager.default.temporaryDirectory.appending(path: "lupine-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: false)
    defer { try? FileManager.default.removeItem(at: folder) }
    try await withSite(ServerRoute.standard()) { _, server in
      let manager = try HTTPSessionManager(baseURL: server.url("/"))
      var policy = RetryPolicy()
      policy.maximumAttempts = 10
      manager.retryPolicy = policy

      func fetch(_ url: String, to file: URL, keeping state: URL) async throws {
        let request = try manager.request(.get, url)
        do {
          if let kept = try? Data(contentsOf: state) {
            _ = try await manager.download(resumeFrom: ResumeData(kept), request: request, to: file)
          } else {
            _ = try await manager.download(for: request, to: file)
          }
          try? FileManager.default.removeItem(at: state)
        } catch {
          let failure = error as? SessionError
          if failure?.code == .badResumeData {
            try? FileManager.default.removeItem(at: state)
          } else if let left = failure?.resumeData ?? (error as? SerializationError)?.resumeData {
            try left.data.write(to: state)
          }
          throw error
        }
      }
      // The first run has one attempt, and the next goes on.
      manager.retryPolicy = nil
      let state = folder.appending(path: "state")
      await #expect(throws: SessionError.self) {
        try await fetch("bytes?n=200000&cut=150000&etag=x", to: folder.appending(path: "file"), keeping: state)
      }
      let left = try Data(contentsOf: state)
      // What fails before anything is asked leaves it as it is.
      manager.interceptors = [ClosureInterceptor(adapt: { _, _ in throw NotALog() })]
      await #expect(throws: NotALog.self) {
        try await fetch("bytes?n=200000&cut=150000&etag=x", to: folder.appending(path: "file"), keeping: state)
      }
      manager.interceptors = []
      #expect(try Data(contentsOf: state) == left)
      try await fetch("bytes?n=200000&cut=150000&etag=x", to: folder.appending(path: "file"), keeping: state)
      #expect(!FileManager.default.fileExists(atPath: state.path))
      #expect(try Data(contentsOf: folder.appending(path: "file")).count == 200_000)
      // What does not get better is thrown in the end.
      await #expect(throws: SerializationError.self) {
        try await fetch("status?code=404", to: folder.appending(path: "other"), keeping: state)
      }
      // What is of another URL is in the way once.
      try left.write(to: state)
      await #expect(throws: SessionError.self) {
        try await fetch("hello", to: folder.appending(path: "hello"), keeping: state)
      }
      try await fetch("hello", to: folder.appending(path: "hello"), keeping: state)
    }
  }

  @Test func privateTrust() async throws {
    let authority = try CertificateAuthority(commonName: "Example Root")
    var tls = try ServerTLS(authority.issue(CertificateOrder(dnsNames: ["localhost"], ipAddresses: ["127.0.0.1"])))
    tls.clientAuthorities = authority.rootPEM
    tls.requiresClientCertificate = true
    let client = try authority.issue(CertificateOrder(commonName: "client", usage: .client)).write()
    defer { client.remove() }
    let (certificatePath, keyPath) = (client.chainPath, client.privateKeyPath)
    let authorityPEM = Array(authority.rootPEM.utf8)
    try await withSite(tls: tls) { site, server in
      var configuration = SessionConfiguration()
      configuration.tls.additionalRoots = try TLSConfiguration.certificates(inPEM: authorityPEM)
      configuration.tls.clientIdentity = .init(certificatePath: certificatePath, privateKeyPath: keyPath)
      let session = try Session(configuration)
      let (body, _) = try await session.data(from: "\(site)/users/7")
      #expect(!body.isEmpty)
    }
  }

  /// What is excepted goes past it.
  @Test func aProxy() async throws {
    let password = "secret"
    try await withSite { site, _ in
      var configuration = SessionConfiguration()
      var proxy = try Proxy("http://proxy.example:3128")
      proxy.credential = .password(user: "ada", password: password)
      configuration.proxy = .proxy(proxy, except: "localhost, 127.0.0.0/8, .corp.example")
      let session = try Session(configuration)
      let (body, _) = try await session.data(from: "\(site)/users/7")
      #expect(!body.isEmpty)
    }
  }

  @Test func images() async throws {
    let routes = [
      ServerRoute("GET", "/v1/portrait") { _, connection in
        try connection.respond(200, fields: ["Content-Type": "image/png"], body: TestImage.png(4, 3))
      }
    ]
    let folder = FileManager.default.temporaryDirectory.appending(path: "lupine-\(UUID().uuidString)")
    defer { try? FileManager.default.removeItem(at: folder) }
    try await withSite(routes) { site, _ in
      var configuration = ImageDownloader.defaultConfiguration
      configuration.responseCache = try ResponseCache(diskCapacity: 200 << 20, directory: folder.path)
      let downloader = try ImageDownloader(configuration: configuration, maximumActiveDownloads: 8)
      let downloaded = try await downloader.image(from: "\(site)/portrait")
      print(downloaded.image.format, downloaded.image.pixelWidth, downloaded.image.data.count)
      #expect(downloaded.image.format == .png && downloaded.image.pixelWidth == 4)
      await configuration.responseCache?.flush()
    }
  }

  @Test func theEndOfAProgram() async throws {
    try await withSite { site, _ in
      let manager = try HTTPSessionManager(baseURL: site)
      let user = try await manager.get("users/7", as: User.self)
      #expect(user.id == 7)
      await manager.session.shutDown(within: .seconds(20))
      let error = await #expect(throws: SessionError.self) { _ = try await manager.get("users/7", as: User.self) }
      #expect(error?.code == .sessionInvalidated)
    }
  }

  @Test func whereTheTimeGoes() async throws {
    try await withSite { site, _ in
      let session = try Session()
      let (_, response) = try await session.data(from: "\(site)/users/7")
      for transaction in response.metrics.transactions {
        print(transaction.urlString, transaction.remoteAddress ?? "?")
        for phase in transaction.phases { print(phase.name, phase.duration) }
      }
      #expect(response.metrics.transactions.count == 1)
    }
  }

  @Test func otherWays() async throws {
    try await withSite { _, server in
      let port = server.port
      var configuration = SessionConfiguration()
      configuration.nameOverrides = ["api.example:\(port)": "127.0.0.1:\(port)"]
      let session = try Session(configuration)
      let (body, _) = try await session.data(from: "http://api.example:\(port)/v1/users/7")
      #expect(!body.isEmpty)
    }
  }
}
