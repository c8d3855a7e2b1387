import Foundation
import Lupine
import LupineTesting
import Testing

/// The facts of AFNetworking's `AFHTTPSessionManagerTests`, against a server of our own.
@Suite struct HTTPSessionManagerTests {
  /// Two managers are two.
  @Test func managersAreNotShared() throws {
    let (first, second) = (try HTTPSessionManager(), try HTTPSessionManager())
    #expect(first !== second && first.session !== second.session)
  }

  /// A copy has base, serializers and policy, and a session of its own.
  @Test func copies() throws {
    let manager = try HTTPSessionManager(baseURL: "https://h/v1")
    manager.responseSerializer = HTTPResponseSerializer()
    manager.requestSerializer.base.setValue("x", forHeader: "field")
    try manager.setSecurityPolicy(SecurityPolicy(pinningMode: .none, validatesDomainName: false))
    let copy = try HTTPSessionManager(copying: manager)
    #expect(copy.baseURL == "https://h/v1/" && copy.responseSerializer is HTTPResponseSerializer)
    #expect(copy.requestSerializer.base.value(forHeader: "field") == "x")
    #expect(copy.securityPolicy == manager.securityPolicy && copy.session !== manager.session)
  }

  /// A task's handler gets the value and no error, when the task is over.
  @Test func dataTaskSucceeds() async throws {
    try await withManager(ServerRoute.api()) { manager, server in
      let request = try manager.request(.get, "anything")
      let state = Recorder<SessionTask.State>()
      let end = await ended { handler in
        let task = Recorder<DataTask>()
        let made = manager.dataTask(with: request) { response, value, error in
          if let task = task.values.first { state.add(task.state) }
          handler(response, value, error)
        }
        task.add(made)
        return made
      }
      #expect(end.value != nil && end.error == nil && end.response?.statusCode == 200)
      #expect(state.values == [.completed])
    }
  }

  /// 404 is an error.
  @Test func dataTaskFailsWithTheStatus() async throws {
    try await withManager { manager, server in
      let request = try manager.request(.get, "status?code=404&body=gone")
      let end = await ended { manager.dataTask(with: request, completion: $0) }
      let error = try #require(end.error as? SerializationError)
      #expect(error.contains(.unacceptableContentType) || error.contains(.unacceptableStatusCode))
      #expect(error.response?.statusCode == 404 && end.response?.statusCode == 404)
      #expect(String(decoding: error.data ?? Data(), as: UTF8.self) == "gone")
    }
  }

  /// The redirect hook is asked about a 302, and its request is sent.
  @Test func redirectHookIsAsked() async throws {
    try await withManager(ServerRoute.api()) { manager, server in
      let asked = Recorder<Int>()
      manager.taskWillPerformHTTPRedirection = { _, _, response, request in
        asked.add(response.statusCode)
        return request
      }
      let end = await ended { manager.get("redirect?to=/anything", success: $0, failure: $1) }
      #expect(end.isSuccess && asked.values == [302])
      let told = try end.anything()
      #expect(told.path == "/anything")
    }
  }

  /// A hook that says nil makes the 3xx the response, which is not an acceptable one.
  @Test func redirectHookRefuses() async throws {
    try await withManager { manager, server in
      manager.taskWillPerformHTTPRedirection = { _, _, _, _ in nil }
      let end = await ended { manager.get("redirect?to=/anything", success: $0, failure: $1) }
      let error = try #require(end.error as? SerializationError)
      #expect(error.contains(.unacceptableStatusCode) && error.response?.statusCode == 302)
      #expect(server.requestCount == 1)
    }
  }

  /// The URL of the manager's hook becomes the path that the handler gets; the task's destination is not asked.
  @Test func downloadHookSaysWhere() async throws {
    let folder = try ScratchFolder()
    try await withManager { manager, server in
      manager.downloadTaskDidFinishDownloading = { _, _, _ in folder.file("hook") }
      let request = try manager.request(.get, "bytes?n=1000")
      let end = await downloaded {
        manager.downloadTask(with: request, destination: { _, _ in folder.file("task") }, completion: $0)
      }
      #expect(end.value as? URL == folder.file("hook") && end.error == nil)
      #expect(folder.names == ["hook"])
    }
  }

  /// The destination of the task becomes the path that the handler gets.
  @Test func downloadDestinationSaysWhere() async throws {
    let folder = try ScratchFolder()
    try await withManager { manager, server in
      manager.downloadTaskDidFinishDownloading = { _, _, _ in nil }
      let request = try manager.request(.get, "bytes?n=1000")
      let end = await downloaded {
        manager.downloadTask(with: request, destination: { _, _ in folder.file("task") }, completion: $0)
      }
      #expect(end.value as? URL == folder.file("task"))
      #expect(try Data(contentsOf: folder.file("task")) == Data(PatternBody.bytes(1000)))
    }
  }

  /// What a serialization closure throws: no task, and the handler of failure gets it without one.
  @Test func refusedParametersHaveNoTask() async throws {
    struct Refusal: Error {}
    let manager = try HTTPSessionManager(baseURL: "http://127.0.0.1:9/")
    manager.requestSerializer.base.queryStringSerialization = { _, _ in throw Refusal() }
    let hasTask = Recorder<Bool>()
    let end = await ended { success, failure in
      let task = manager.get("x", parameters: ["key": "value"], success: success, failure: failure)
      hasTask.add(task != nil)
      return task
    }
    #expect(hasTask.values == [false] && end.task == nil)
    #expect(end.error is Refusal)
  }

  /// A serializer of a program's own, which makes requests as it likes.
  struct Shouting: HTTPRequestSerializing {
    var base: HTTPRequestSerializer

    func serialize(_ request: Request, parameters: (any Sendable)?) throws -> Request {
      try base.serialize(request, parameters: parameters)
    }

    func request(method: String, url: String, parameters: (any Sendable)?) throws -> Request {
      try serialize(Request(url.uppercased(), method: .patch), parameters: parameters)
    }
  }

  /// The request of a call is the one that the serializer makes of the whole URL, whatever its type and settings are.
  @Test(arguments: ["GET", "HEAD", "DELETE", "POST", "PUT", "get"])
  func requestsAreTheSerializers(_ verb: String) throws {
    var form = HTTPRequestSerializer()
    form.timeoutInterval = .seconds(7)
    form.handlesCookies = false
    form.setValue("1", forHeader: "X-Own")
    form.methodsEncodingParametersInURL = ["GET", "DELETE"]
    var json = JSONRequestSerializer()
    json.base = form
    var list = PropertyListRequestSerializer()
    list.base = form
    let serializers: [any HTTPRequestSerializing] = [form, json, list, HTTPRequestSerializer(), Shouting(base: form)]
    let manager = try HTTPSessionManager(baseURL: "http://h/v1")
    let method = try #require(HTTPRequest.Method(verb))
    for serializer in serializers {
      manager.requestSerializer = serializer
      for parameters: [String: Int]? in [nil, ["a": 1]] {
        let request = try manager.request(method, "path?x=1", parameters: parameters)
        let expected = try serializer.request(method: verb, url: "http://h/v1/path?x=1", parameters: parameters)
        #expect(request.urlString == expected.urlString && request.method == expected.method)
        #expect(request.fields == expected.fields && request.body.text == expected.body.text)
        #expect(request.timeoutInterval == expected.timeoutInterval)
        #expect(request.handlesCookies == expected.handlesCookies)
      }
    }
  }

  /// Each setting of the serializer reaches the requests of calls, also if it is the only one.
  @Test func eachSettingIsApplied() throws {
    let manager = try HTTPSessionManager(baseURL: "http://h/")
    func request(_ set: (inout HTTPRequestSerializer) -> Void) throws -> Request {
      var serializer = HTTPRequestSerializer()
      set(&serializer)
      manager.requestSerializer = serializer
      return try manager.request(.get, "a")
    }
    let silence = try request { $0.timeoutInterval = .seconds(1) }
    let total = try request { $0.totalTimeout = .seconds(2) }
    let cookies = try request { $0.handlesCookies = false }
    let cache = try request { $0.cachePolicy = .returnCacheDataElseLoad }
    let service = try request { $0.networkServiceType = .video }
    let cellular = try request { $0.allowsCellularAccess = false }
    #expect(silence.timeoutInterval == .seconds(1) && silence.totalTimeout == nil)
    #expect(total.totalTimeout == .seconds(2) && total.timeoutInterval == nil)
    #expect(!cookies.handlesCookies && cache.handlesCookies)
    #expect(cache.cachePolicy == .returnCacheDataElseLoad && service.networkServiceType == .video)
    #expect(!cellular.allowsCellularAccess && service.allowsCellularAccess)
  }

  /// A header of the call takes the place of the serializer's; the others stay.
  @Test func headersOfACallReplace() throws {
    let manager = try HTTPSessionManager(baseURL: "http://h/")
    manager.requestSerializer.base.headers = ["field": "default", "other": "stays"]
    let task = manager.dataTask(method: .get, "x", headers: ["FIELD": "special"], success: nil)
    let fields = try #require(task?.originalRequest.fields)
    #expect(fields.filter { $0.name.canonicalName == "field" }.map(\.value) == ["special"])
    #expect(fields.contains { $0.name.canonicalName == "other" && $0.value == "stays" })
  }

  /// A header that cannot be sent is a failure, not a crash.
  @Test func badHeadersAreRefused() throws {
    let manager = try HTTPSessionManager(baseURL: "http://h/")
    for (name, value) in [("a b", "x"), ("field", "a\r\nb")] {
      let error = #expect(throws: SessionError.self) { try manager.request(.get, "x", headers: [name: value]) }
      #expect(error?.code == .badRequest)
    }
  }

  /// A GET tells its progress until all is there.
  @Test func getReportsProgress() async throws {
    try await withManager { manager, server in
      manager.responseSerializer = HTTPResponseSerializer()
      let fractions = Recorder<Double>()
      let end = await ended { success, failure in
        manager.get(
          "bytes?n=200000", progress: { fractions.add($0.fractionCompleted) }, success: success, failure: failure)
      }
      #expect(end.isSuccess && fractions.values.last == 1)
      #expect(fractions.values == fractions.values.sorted())
    }
  }

  /// A POST of 20 kB tells its progress until all is sent.
  @Test func postReportsProgress() async throws {
    try await withManager(ServerRoute.api()) { manager, server in
      let fractions = Recorder<Double>()
      let end = await ended { success, failure in
        manager.post(
          "anything", parameters: ["key": String(repeating: "a", count: 20_000)],
          progress: { fractions.add($0.fractionCompleted) }, success: success, failure: failure)
      }
      #expect(end.isSuccess && fractions.values.last == 1)
    }
  }

  /// 200 is a success.
  @Test func status200Succeeds() async throws {
    try await withManager { manager, server in
      let end = await ended { manager.get("json", success: $0, failure: $1) }
      #expect((end.value as? JSONValue)?["count"] == .integer(13))
    }
  }

  /// 404 is a failure.
  @Test func status404Fails() async throws {
    try await withManager { manager, server in
      let end = await ended { manager.get("status?code=404", success: $0, failure: $1) }
      #expect((end.error as? SerializationError)?.response?.statusCode == 404)
      #expect(end.task?.response?.statusCode == 404)
    }
  }

  /// 204 is a success without a value.
  @Test func status204HasNoValue() async throws {
    try await withManager { manager, server in
      let end = await ended { manager.get("status?code=204", success: $0, failure: $1) }
      #expect(end.isSuccess && end.value == nil)
    }
  }

  /// Every verb arrives as itself, with parameters where they belong, and with the header of the call.
  @Test(arguments: ["GET", "POST", "PUT", "PATCH", "DELETE"])
  func verbsRoundTrip(_ verb: String) async throws {
    try await withManager(ServerRoute.api()) { manager, server in
      manager.requestSerializer.base.setValue("default", forHeader: "field")
      let parameters = ["key": "value"]
      let headers = ["field": "value"]
      let end = await ended { success, failure in
        switch verb {
        case "GET":
          manager.get("anything", parameters: parameters, headers: headers, success: success, failure: failure)
        case "POST":
          manager.post("anything", parameters: parameters, headers: headers, success: success, failure: failure)
        case "PUT":
          manager.put("anything", parameters: parameters, headers: headers, success: success, failure: failure)
        case "PATCH":
          manager.patch("anything", parameters: parameters, headers: headers, success: success, failure: failure)
        default:
          manager.delete("anything", parameters: parameters, headers: headers, success: success, failure: failure)
        }
      }
      let told = try end.anything()
      #expect(told.method == verb && told.headers["field"] == "value")
      let inURL = ["GET", "DELETE"].contains(verb)
      #expect(told.arguments == (inURL ? parameters : [:]))
      #expect(told.form == (inURL ? [:] : parameters))
    }
  }

  /// HEAD succeeds without a value.
  @Test func headSucceeds() async throws {
    try await withManager { manager, server in
      let end = await ended { success, failure in
        manager.head("json", headers: ["field": "value"], success: { success($0, nil) }, failure: failure)
      }
      #expect(end.isSuccess && end.task?.response?.statusCode == 200)
      let request = try #require(server.recordedRequests.first)
      #expect(request.method == "HEAD" && request.fields.first("field") == "value")
    }
  }

  /// Also with a serializer that would miss a body; what is wrong with the response is said.
  @Test(arguments: [("json", true), ("status?code=404", false)]) func headNeedsNoBody(
    _ path: String, isGood: Bool
  ) async throws {
    try await withManager { manager, _ in
      manager.responseSerializer = DecodableResponseSerializer<[String: Int]>()
      let end = await ended { success, failure in
        manager.head(path, success: { success($0, nil) }, failure: failure)
      }
      #expect(end.isSuccess == isGood, "\(end)")
    }
  }

  /// What a serializer has against the status is no want of a body, whoever in it says so.
  @Test func headMayBeRefusedWithin() async throws {
    try await withManager { manager, _ in
      var compound = CompoundResponseSerializer([HTTPResponseSerializer()])
      compound.validation.acceptableStatusCodes = nil
      manager.responseSerializer = compound
      let end = await ended { success, failure in
        manager.head("status?code=404", success: { success($0, nil) }, failure: failure)
      }
      #expect((end.error as? SerializationError)?.code == .unacceptableStatusCode, "\(end)")
    }
  }

  /// A Basic header opens what asks for it.
  @Test func authorizationHeaderIsSent() async throws {
    try await withManager { manager, server in
      manager.responseSerializer = HTTPResponseSerializer()
      try manager.requestSerializer.base.setAuthorization(username: "user", password: "password")
      let end = await ended { manager.get("basic-auth?user=user&password=password", success: $0, failure: $1) }
      #expect(end.isSuccess)
    }
  }

  /// The challenge handler answers with a credential; the rest gets the default handling.
  @Test func challengeHandlerGivesACredential() async throws {
    try await withManager { manager, server in
      manager.responseSerializer = HTTPResponseSerializer()
      let realms = Recorder<String?>()
      manager.authenticationChallengeHandler = { _, _, challenge, _ in
        realms.add(challenge.protectionSpace.realm)
        guard challenge.previousFailureCount == 0 else { return .disposition(.performDefaultHandling) }
        return .credential(.password(user: "user", password: "password", persistence: .none))
      }
      let end = await ended { manager.get("basic-auth?user=user&password=password", success: $0, failure: $1) }
      #expect(end.isSuccess && realms.values.count == 1)
    }
  }

  /// A handler may answer later, and may give up with an error of its own.
  @Test func challengeHandlerAnswersLaterOrGivesUp() async throws {
    struct NoLogin: Error {}
    try await withManager { manager, server in
      manager.responseSerializer = HTTPResponseSerializer()
      manager.authenticationChallengeHandler = { _, _, _, complete in
        DispatchQueue.global().async {
          complete(.useCredential(.password(user: "user", password: "password", persistence: .none)))
        }
        return .handledLater
      }
      let path = "basic-auth?user=user&password=password"
      #expect(await ended { manager.get(path, success: $0, failure: $1) }.isSuccess)
      manager.authenticationChallengeHandler = { _, _, _, _ in .error(NoLogin()) }
      #expect(await ended { manager.get(path, success: $0, failure: $1) }.error is NoLogin)
      await #expect(throws: NoLogin.self) { try await manager.get(path, as: Data.self) }
    }
  }

  /// The serializer and the timeout of a call hold for it alone.
  @Test func serializerAndTimeoutOfACall() async throws {
    try await withManager { manager, server in
      let hello = await ended { success, failure in
        manager.get("hello", responseSerializer: HTTPResponseSerializer(), success: success, failure: failure)
      }
      #expect(hello.value as? Data == Data("Hello, world!".utf8))
      #expect(await ended { manager.get("hello", success: $0, failure: $1) }.error is SerializationError)
      let slow = await ended { manager.get("slow", timeout: .milliseconds(50), success: $0, failure: $1) }
      #expect((slow.error as? SessionError)?.code == .timedOut)
    }
  }
}
