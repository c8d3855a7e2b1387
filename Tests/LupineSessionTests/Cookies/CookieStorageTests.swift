import FoundationEssentials
import Glibc
import LupineBase
import LupineRules
import LupineSession
import LupineTesting
import Testing

/// The storage by itself: what it takes, its files, and many threads at once.
@Suite struct CookieStorageTests {
  private func filled() throws -> CookieStorage {
    let storage = CookieStorage()
    try storage.setCookies(
      [
        "sid=s3cr3t; Path=/; Secure; HttpOnly; SameSite=Strict",
        "theme=dark; Domain=example.com; Path=/x; Max-Age=86400",
        "nameless", "utf=ключ",
      ], from: "https://www.example.com/docs/page")
    #expect(storage.count == 4)
    return storage
  }

  @Test func attributes() throws {
    let cookies = try filled().cookies
    #expect(cookies.map(\.name) == ["sid", "theme", "", "utf"])
    #expect(cookies.map(\.value) == ["s3cr3t", "dark", "nameless", "ключ"])
    #expect(cookies.map(\.domain) == ["www.example.com", "example.com", "www.example.com", "www.example.com"])
    #expect(cookies.map(\.includesSubdomains) == [false, true, false, false])
    #expect(cookies.map(\.path) == ["/", "/x", "/docs", "/docs"])
    #expect(cookies.map(\.isSecure) == [true, false, false, false])
    #expect(cookies.map(\.isHTTPOnly) == [true, false, false, false])
    #expect(cookies.map(\.sameSite) == [.strict, .unspecified, .unspecified, .unspecified])
    #expect(cookies.map(\.isSessionOnly) == [true, false, true, true])
    let expires = try #require(cookies[1].expires)
    #expect(abs(expires.timeIntervalSinceNow - 86_400) < 60)
  }

  /// A list that cannot be had for a while, for want of descriptors, is asked for again: what it forbids does not stay, and nothing of the kind is taken.
  @Test func aListThatCannotBeHadYet() throws {
    let list = Locked<PublicSuffixList?>(nil)
    let storage = CookieStorage(reading: { list.withLock { $0 } })
    let own = "https://a.shop.example/"
    try storage.setCookies(["all=1; Domain=shop.example", "own=2", "www=3; Domain=a.shop.example"], from: own)
    #expect(try storage.cookies(for: "https://b.shop.example/").map(\.name) == ["all"])
    let text = Array("example\nshop.example\n".utf8)
    let known = PublicSuffixList(reading: text.span)
    list.withLock { $0 = known }
    #expect(try storage.cookies(for: "https://b.shop.example/").isEmpty)
    #expect(try storage.cookies(for: own).map(\.name) == ["own", "www"])
    #expect(try storage.setCookies(["all=1; Domain=shop.example"], from: own) == 0)
    #expect(storage.count == 2)
  }

  /// What a storage may hold has room in a file, whatever servers have put into it: a quotation mark takes two bytes of JSON.
  @Test(arguments: [CookieFileFormat.json, .netscape]) func theLargestCookiesHaveRoomInAFile(
    _ format: CookieFileFormat
  ) throws {
    func size(_ count: Int) throws -> Int {
      let storage = CookieStorage(suffixes: .builtIn)
      let value = String(repeating: "\"", count: SetCookieReader.pairLimit - 1)
      let path = "/" + String(repeating: "\"", count: 1_023)
      let cookies = (0..<count).map {
        "\($0)=\(value); Path=\(path); Max-Age=34560000; SameSite=Strict; Secure; HttpOnly"
      }
      #expect(try storage.setCookies(cookies, from: "https://www.example.com/") == count)
      return try withFolder { folder in
        #expect(try storage.save(to: folder + "/jar", format: format) == 0)
        return try Data(contentsOf: URL(filePath: folder + "/jar")).count
      }
    }
    let cookie = try size(2) - size(1)
    let factor = format == .json ? 2 : 1
    #expect(cookie > factor * (SetCookieReader.pairLimit + 1_000))
    // A domain of 253 bytes has 238 more than this one.
    let limit = format == .json ? CookieStorage.jsonSizeLimit : NetscapeCookieFile.sizeLimit
    #expect(CookieStore.totalLimit * (cookie + 238) < limit)
  }

  private static let hasList = unsafe access("/usr/share/publicsuffix/public_suffix_list.dat", R_OK) == 0

  /// A name that the rule without a list takes for anybody's: `*.kobe.jp` is in the list.
  @Test(.enabled(if: hasList, "there is no list of public suffixes: apt-get install -y publicsuffix"))
  func theSystemsSuffixesAreTheDefault() throws {
    let url = "http://www.c.kobe.jp/"
    let without = CookieStorage(suffixes: .builtIn)
    #expect(try without.setCookies(["a=1; Domain=c.kobe.jp"], from: url) == 1)
    #expect(try CookieStorage().setCookies(["a=1; Domain=c.kobe.jp"], from: url) == 0)
    #expect(try CookieStorage().setCookies(["a=1; Domain=www.c.kobe.jp", "b=1"], from: url) == 2)
  }

  /// Cookies are secrets, and end up in logs easily.
  @Test func descriptionsHideValues() throws {
    let cookie = try #require(try filled().cookies.first)
    var dumped = ""
    dump(cookie, to: &dumped)
    for text in ["\(cookie)", String(reflecting: cookie), dumped, "\([cookie])"] {
      #expect(text.contains("sid=***") && !text.contains("s3cr3t"), "\(text)")
    }
    let error = #expect(throws: SessionError.self) {
      try CookieStorage().setCookie(Cookie(name: "a", value: "s3cr3t\n", domain: "a.com"))
    }
    #expect(error?.code == .cookieRefused)
    #expect(error.map { "\($0)".contains("s3cr3t") } == false)
  }

  @Test func setAndDelete() throws {
    let storage = CookieStorage()
    let cookie = Cookie(name: "a", value: "1", domain: ".Example.com", isSecure: true)
    #expect(cookie.includesSubdomains)
    try storage.setCookie(cookie)
    #expect(try storage.cookies(for: "https://sub.example.com/").map(\.value) == ["1"])
    #expect(try storage.cookies(for: "http://sub.example.com/").isEmpty)
    try storage.setCookie(Cookie(name: "a", value: "2", domain: "example.com", includesSubdomains: true))
    #expect(storage.count == 1)
    try storage.setCookie(
      Cookie(
        name: "a", value: "", domain: "example.com", includesSubdomains: true, expires: Date(timeIntervalSince1970: 1)))
    #expect(storage.isEmpty)
    try storage.setCookie(Cookie(name: "b", value: "1", domain: "example.com"))
    try storage.setCookie(Cookie(name: "c", value: "1", domain: "example.com", expires: Date() + 1000))
    storage.removeSessionCookies()
    #expect(storage.cookies.map(\.name) == ["c"])
    storage.delete(try #require(storage.cookies.first))
    #expect(storage.isEmpty)
    // However its domain is written, as for what is set.
    for domain in ["EXAMPLE.com", "Bücher.example", "[0:0::1]"] {
      try storage.setCookie(Cookie(name: "d", value: "1", domain: domain))
      storage.delete(Cookie(name: "d", value: "", domain: domain))
      #expect(storage.isEmpty, "\(domain)")
    }
    storage.delete(Cookie(name: "d", value: "", domain: "no domain"))
    try storage.setCookie(Cookie(name: "d", value: "1", domain: "example.com"))
    storage.removeAll()
    #expect(storage.cookies.isEmpty)
    #expect(throws: SessionError.self) { try storage.cookies(for: "no URL") }
  }

  @Test func counting() throws {
    let storage = CookieStorage()
    let values = (0..<60).map { "c\($0)=1" } + ["bad=\u{1}"]
    #expect(try storage.setCookies(["a=1", "bad=\u{1}", "=", "b=1"], from: "http://a.com/") == 2)
    #expect(try storage.setCookies(values, from: "http://b.com/") == 50)
    storage.maximumCookiesPerResponse = 2
    #expect(try storage.setCookies(["a=1", "=", "b=1"], from: "http://d.com/") == 1)
    storage.acceptPolicy = .never
    #expect(try storage.setCookies(["a=1"], from: "http://c.com/") == 0)
    #expect(storage.count == 53)
  }

  // MARK: Files

  @Test(arguments: [CookieFileFormat.netscape, .json]) func filesReadBack(_ format: CookieFileFormat) throws {
    let storage = try filled()
    try withFolder { folder in
      let path = folder + "/jar"
      #expect(try storage.save(to: path, format: format) == 0)
      var status = stat()
      #expect(unsafe stat(path, &status) == 0)
      #expect(status.st_mode & 0o777 == 0o600)
      #expect(try FileManager.default.contentsOfDirectory(atPath: folder) == ["jar"])
      let copy = CookieStorage()
      let report = try copy.load(from: path, format: format)
      #expect(report.read == 4 && report.problemCount == 0 && report.problems.isEmpty)
      #expect(copy.cookies.map(\.value) == storage.cookies.map(\.value))
      if format == .json { #expect(copy.cookies == storage.cookies) }
      #expect(try copy.cookies(for: "https://www.example.com/x").map(\.name) == ["theme", "sid"])
      // Without those of the session.
      try storage.save(to: path, format: format, includesSessionCookies: false)
      let third = CookieStorage()
      #expect(try third.load(from: path, format: format).read == 1)
    }
  }

  /// The directory of a URL may have a semicolon in it, which no `Path` could say: the default path has it.
  @Test(arguments: [CookieFileFormat.netscape, .json]) func pathsWithSemicolonsReadBack(
    _ format: CookieFileFormat
  ) throws {
    let storage = CookieStorage()
    #expect(try storage.setCookies(["sid=1"], from: "https://www.example.com/app;v=1/login") == 1)
    let cookie = try #require(storage.cookies.first)
    #expect(cookie.path == "/app;v=1")
    try CookieStorage().setCookie(cookie)
    try withFolder { folder in
      #expect(try storage.save(to: folder + "/jar", format: format) == 0)
      let copy = CookieStorage()
      let report = try copy.load(from: folder + "/jar", format: format)
      #expect(report.read == 1 && report.problems.isEmpty)
      #expect(copy.cookies.map(\.path) == ["/app;v=1"])
      #expect(try copy.cookies(for: "https://www.example.com/app;v=1/").map(\.value) == ["1"])
    }
  }

  /// A file that others may read is replaced by one that they may not; a link is replaced, not followed.
  @Test func filesAreReplaced() throws {
    try withFolder { folder in
      let (path, other) = (folder + "/jar", folder + "/other")
      #expect(FileManager.default.createFile(atPath: other, contents: Data("old".utf8)))
      #expect(unsafe symlink(other, path) == 0)
      try filled().save(to: path, format: .json)
      #expect(try String(contentsOfFile: other, encoding: .utf8) == "old")
      var status = stat()
      #expect(unsafe lstat(path, &status) == 0)
      #expect(status.st_mode & S_IFMT == S_IFREG && status.st_mode & 0o777 == 0o600)
    }
  }

  /// What would be refused when it is read does not take the place of what is there.
  @Test func noMoreIsSavedThanIsLoaded() throws {
    try withFolder { folder in
      let path = folder + "/jar"
      try SmallFile.replace(path, with: Array("old".utf8), limit: 3)
      let error = #expect(throws: SessionError.self) {
        try SmallFile.replace(path, with: Array("fresh".utf8), limit: 4)
      }
      #expect(error?.code == .fileFailed)
      #expect(try String(contentsOfFile: path, encoding: .utf8) == "old")
      #expect(try FileManager.default.contentsOfDirectory(atPath: folder) == ["jar"])
    }
  }

  @Test func failuresAreErrors() throws {
    let storage = try filled()
    for work in [
      { try storage.save(to: "/nonexistent/folder/jar", format: .json) },
      { try storage.save(to: "/dev/null", format: .netscape) },
      {
        try storage.load(from: "/nonexistent", format: .json)
        return 0
      },
      {
        try storage.load(from: "/tmp", format: .netscape)
        return 0
      },
    ] as [() throws -> Int] {
      let error = #expect(throws: SessionError.self) { try work() }
      #expect(error?.code == .fileFailed)
    }
    var status = stat()
    #expect(unsafe stat("/dev/null", &status) == 0 && status.st_mode & S_IFMT == S_IFCHR)
    #expect(throws: SessionError.self) { try CookieStorage(publicSuffixListPath: "/nonexistent") }
    #expect(throws: SessionError.self) { try CookieStorage(publicSuffixListPath: "/dev/null") }
  }

  @Test func hostileCookiesTxt() throws {
    try withFolder { folder in
      let path = folder + "/cookies.txt"
      let text = """
        # Netscape HTTP Cookie File
        .com\tTRUE\t/\tFALSE\t0\tsuper\t1
        example.com\tFALSE\t/\tFALSE\t0\tgood\t1
        example.com\tFALSE\t/\tFALSE\t1\texpired\t1
        example.com\tFALSE\t/
        example.com\tFALSE\t/\tFALSE\t0\t__Host-x\t1
        ex ample.com\tFALSE\t/\tFALSE\t0\ta\t1
        example.com\tFALSE\tx\tFALSE\t0\ta\t1

        """
      try Data(text.utf8).write(to: URL(filePath: path))
      let storage = CookieStorage()
      let report = try storage.load(from: path, format: .netscape)
      #expect(storage.cookies.map(\.name) == ["good"])
      #expect(report.read == 1)
      #expect(report.problems.map(\.place) == [2, 5, 6, 7, 8])
      #expect(report.problemCount == 5)
    }
  }

  /// What has expired in a file says nothing of what the storage has now.
  @Test(arguments: [CookieFileFormat.netscape, .json]) func expiredCookiesOfFilesDeleteNothing(
    _ format: CookieFileFormat
  ) throws {
    let storage = CookieStorage()
    try storage.setCookies(["sid=new; Domain=example.com; Path=/; Max-Age=1000"], from: "https://www.example.com/")
    let text =
      switch format {
      case .netscape: "# Netscape HTTP Cookie File\n.example.com\tTRUE\t/\tFALSE\t1\tsid\told\n"
      default:
        #"{"version":1,"cookies":[{"name":"sid","value":"old","domain":"example.com","hostOnly":false,"path":"/","expires":1}]}"#
      }
    try withFolder { folder in
      try Data(text.utf8).write(to: URL(filePath: folder + "/jar"))
      let report = try storage.load(from: folder + "/jar", format: format)
      #expect(report.read == 0 && report.problems.isEmpty)
      #expect(storage.cookies.map(\.value) == ["new"])
    }
  }

  @Test(arguments: [
    "", "[]", "{}", #"{"version": 2, "cookies": []}"#, #"{"version": 1, "cookies": {}}"#, #"{"version": "1"}"#,
    #"{"version": 1, "cookies": ["#, String(repeating: "[", count: 1000),
    #"{"version": 1, "cookies": [\#(String(repeating: "0,", count: 300_000))0]}"#,
  ]) func noJSONOfCookies(_ text: String) {
    let storage = CookieStorage()
    let error = #expect(throws: SessionError.self) { try storage.load(json: Data(text.utf8)) }
    #expect(error?.code == .fileFailed)
    #expect(storage.isEmpty)
  }

  @Test func hostileJSON() throws {
    let text = #"""
      {"version": 1, "other": {"kept": true}, "cookies": [
        {"name": "good", "value": "1", "domain": "Example.com", "hostOnly": false, "path": "/", "expires": 99999999999},
        {"name": "super", "value": "1", "domain": "com", "hostOnly": false, "path": "/"},
        {"name": "no path", "value": "1", "domain": "example.com", "hostOnly": false},
        {"name": "number", "value": 1, "domain": "example.com", "hostOnly": false, "path": "/"},
        {"name": "line\nend", "value": "1", "domain": "example.com", "hostOnly": false, "path": "/"},
        {"name": "site", "value": "1", "domain": "example.com", "hostOnly": false, "path": "/", "sameSite": "perhaps"},
        {"name": "date", "value": "1", "domain": "example.com", "hostOnly": false, "path": "/", "expires": "soon"},
        {"name": "huge", "value": "1", "domain": "example.com", "hostOnly": true, "path": "/", "expires": 1e300, "created": -1e300},
        {"name": "past", "value": "1", "domain": "example.com", "hostOnly": true, "path": "/", "expires": -5}, null, 1, []
      ]}
      """#
    let storage = CookieStorage()
    let report = try storage.load(json: Data(text.utf8))
    #expect(storage.cookies.map(\.name) == ["good", "huge"])
    #expect(report.read == 2)
    #expect(report.problems.map(\.place) == [2, 3, 4, 5, 6, 7, 10, 11, 12])
    for cookie in storage.cookies {
      #expect(try #require(cookie.expires) <= Date() + 400 * 86_400)
    }
  }

  @Test func ephemeralSessionsHaveTheirOwn() {
    #expect(SessionConfiguration().cookieStorage === CookieStorage.shared)
    let (first, second) = (SessionConfiguration.ephemeral.cookieStorage, SessionConfiguration.ephemeral.cookieStorage)
    #expect(first != nil && first !== second && first !== CookieStorage.shared)
  }

  // MARK: Threads

  @Test func manyAtOnce() async throws {
    let storage = CookieStorage()
    await withTaskGroup(of: Void.self) { group in
      for worker in 0..<8 {
        group.addTask {
          for round in 0..<200 {
            do {
              let url = "https://h\(round % 5).example.com/"
              try storage.setCookies(["w\(worker)=\(round); Domain=example.com", "own=\(worker)"], from: url)
              _ = try storage.cookies(for: url)
              if round % 50 == 49 { storage.removeSessionCookies() }
              _ = storage.count
            } catch {
              Issue.record(error)
            }
          }
        }
      }
    }
    #expect(storage.count == storage.cookies.count)
    #expect(storage.count <= 13)
  }
}
