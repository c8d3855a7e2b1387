internal import ArgumentParser
internal import HTTPTypes
internal import LupineCommandLine
internal import LupineSession

/// The main form: one request, its answer to standard output or a file.
struct FetchCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "lupine",
    abstract: "Fetch a URL.",
    usage: "lupine [METHOD] URL [ITEM ...] [options]\n       lupine batch | bench | demo | watch [options]",
    discussion: """
      URL: without a scheme it is http; ":8080/path" is http://localhost:8080/path. METHOD: GET, or POST with a body.

      ITEM:
        name:value     header field; "name:" leaves a default one out, "name;" sends it empty
        name==value    query parameter
        name=value     text field of a JSON object (or form, with --form)
        name:=json     field with any JSON value: age:=29 tags:='["a","b"]'
        name=@file     text field from a file; name:=@file for JSON
        name@file      file of a multipart form; ";type=media/type" may follow
        @file          the file is the whole body; "-" is standard input
      A backslash makes ":", "=", "@" and ";" ordinary characters.

      Coming from curl: the URL comes first, and -d, -b and -F mean other things here; Docs/CommandLine.md has a table.

      COMMANDS (each has its own --help):
        batch          JSON requests on standard input, JSON results on standard output
        bench          measure requests per second, CPU time and latencies
        demo           show everything against a server that it starts itself
        watch          tell how far the network reaches, and every change of it

      \(ExitStatus.table)
      """,
    shouldDisplay: false)

  @Argument(help: .hidden)
  var arguments: [String] = []

  @OptionGroup(title: "Request") var body: BodyOptions
  @OptionGroup(title: "Authentication") var authentication: AuthenticationOptions
  @OptionGroup(title: "Output") var output: OutputOptions
  @OptionGroup(title: "Session") var session: SessionOptions
  @OptionGroup(title: "Connection") var connection: ConnectionOptions
  @OptionGroup(title: "Proxy") var proxy: ProxyOptions

  mutating func run() async throws {
    let payload = PayloadOptions(
      json: body.json, form: body.form, raw: body.raw, multipart: body.multipart, headers: body.header)
    let target = try Target(arguments)
    try InputUsers.check(
      items: target.items, payload: payload,
      credentials: [
        ("--auth", authentication.auth), ("--proxy-auth", proxy.auth), ("--key-pass", connection.passphraseSource),
      ])
    let writeOut = try output.writeOut.map { format throws(CommandFailure) in try WriteOut.read(format) }
    var plan: FetchPlan
    do {
      plan = try FetchPlan(target: target, payload: payload, connection: connection, authentication: authentication)
    } catch let error as SessionError where error.code == .badURL {
      throw target.misplacedURL(error) ?? error
    }
    try plan.mark(secrets: body.secret)
    try plan.announce(trailers: body.trailer)
    if let proxy = try proxy.configuration() { plan.configuration.proxy = proxy }
    if plan.request.method == .head, let option = output.optionOfFile {
      throw CommandFailure.misuse("\(option) saves a body, and the answer to HEAD has none; leave one of them out")
    }
    if output.download, let path = output.output,
      FileSystem.isWrittenInPlace(path) || FileSystem.isLink(path) && OutputFile(standardStreamAt: path) != nil
    {
      throw CommandFailure.misuse(
        "--download makes a file, and \(path) is something else; without --download the body goes into what is there")
    }
    // Progress and ranges count the bytes as they are sent.
    if output.download {
      plan.request.acceptsCompressedContent = false
      if !plan.request.fields.contains(.acceptEncoding) { plan.request.fields[.acceptEncoding] = "identity" }
    }
    let file = try session.path.map { try SessionFile($0, isSaved: !output.printCurl) }
    if let file {
      plan.configuration.cookieStorage = file.cookies
      plan.configuration.credentialStorage = file.credentials
      // What stands in a URL alone is for that URL.
      if authentication.auth != nil { plan.request.credential?.persistence = .permanent }
    }
    if output.printCurl {
      try plan.checkFraming()
      let command = plan.request.curlCommand(
        redactingSecrets: !output.showSecrets, configuration: plan.configuration)
      return try System.print(command + "\n")
    }
    if output.download, let path = output.output {
      try FileSystem.checkWritable(path)
      // A link stays one: what it leads to is replaced, and has what is incomplete beside it. One that the system does not follow, such as that of somebody
      // else in a directory of all, leads nowhere.
      if FileSystem.isLink(path), FileSystem.exists(path) { output.output = FileSystem.resolved(path) }
    }
    // It makes its directory.
    let cache = try session.cache.map { try ResponseCache(directory: $0) }
    plan.configuration.responseCache = cache
    plan.sendTrailers()
    let secretNames = plan.secretNames
    let archive = try output.har.map {
      try ArchiveFile($0, showsSecrets: output.showSecrets, secretNames: secretNames)
    }
    plan.configuration.transport = try archive?.transport(plan.configuration)
    do {
      try await ArchiveFile.writing(archive) { [plan, output, writeOut] in
        try await FetchRun(plan, output: output, writeOut: writeOut).run()
      }
    } catch {
      // What the redirects before a failure have set is kept too.
      await cache?.flush()
      do {
        try file?.save()
      } catch let loss {
        System.tell(loss: loss)
      }
      throw error
    }
    await cache?.flush()
    try file?.save()
  }
}

/// How the request is made.
struct BodyOptions: ParsableArguments {
  @Flag(name: [.customShort("j"), .long], help: "Send fields as a JSON object (the default), and accept JSON.")
  var json = false

  @Flag(name: [.customShort("f"), .long], help: "Send fields as a form; files make it a multipart form.")
  var form = false

  @Option(
    help: ArgumentHelp(
      "Add a part to a multipart form: name=text, or name@file with ;type=media/type at will.", valueName: "part"))
  var multipart: [String] = []

  @Option(help: "Send this text as the body; @FILE sends a file, @- standard input.")
  var raw: String?

  @Option(
    name: [.customShort("H"), .long], help: ArgumentHelp("Add a header field, as name:value.", valueName: "name:value"))
  var header: [String] = []

  @Option(
    help: ArgumentHelp(
      "Send this field behind the body (repeatable), which goes in chunks then.", valueName: "name:value"))
  var trailer: [String] = []

  @Option(
    help: ArgumentHelp(
      """
      This header field is a secret (repeatable): it is hidden, and not sent to where redirects lead, as Authorization, Cookie, X-Api-Key and \
      the like are anyway.
      """, valueName: "name"))
  var secret: [String] = []

  func validate() throws {
    if json, form { throw ValidationError("--json and --form exclude each other.") }
    if !multipart.isEmpty, json || form {
      throw ValidationError("--multipart, --json and --form exclude each other.")
    }
  }
}

/// Where the answer goes, and what is said about it.
struct OutputOptions: ParsableArguments {
  @Option(name: .shortAndLong, help: ArgumentHelp("Write the body to a file; - is standard output.", valueName: "file"))
  var output: String?

  @Flag(name: [.customShort("d"), .long], help: "Save the body under its name, with a progress bar.")
  var download = false

  @Flag(
    name: [.customShort("c"), .customLong("continue")], help: "With --download: go on where the last attempt ended.")
  var continues = false

  @Flag(
    name: .shortAndLong,
    help: "Print the heads and trailers of every exchange, as sent and received, to standard error.")
  var verbose = false

  @Option(help: ArgumentHelp("Write every exchange to a HAR 1.2 file, also if the request fails.", valueName: "file"))
  var har: String?

  @Flag(help: "Print the same request as a curl command, and do nothing else.")
  var printCurl = false

  @Flag(help: "Do not hide credentials, cookies and keys in --verbose, --timing, --har and --print-curl.")
  var showSecrets = false

  @Flag(help: "Draw when what happened, to standard error.")
  var timing = false

  @Flag(name: [.customShort("b"), .long], help: "Print the body only, also on a terminal.")
  var body = false

  @Flag(name: .shortAndLong, help: "Print the response's head to standard output, before the body, also into a pipe.")
  var include = false

  @Option(
    name: [.customShort("w"), .long],
    help: ArgumentHelp(
      "Print this after the transfer, with variables of curl's names: '%{http_code} %{time_total}\\n'.",
      valueName: "format"))
  var writeOut: String?

  @Option(
    help: ArgumentHelp(
      """
      Send again what failed in a way that time may heal (408, 429, 500, 502, 503, 504, lost connections, deadlines), at most so many times; \
      waits as Retry-After asks. Only what may be sent twice.
      """, valueName: "n"))
  var retry = 0

  @Flag(help: "Exit with 22, and write no body, when the status is 400 or above.")
  var fail = false

  /// What nobody is shown is not waited for, but who wants a record of the exchange wants all of it.
  var wantsWholeBody: Bool { har != nil || timing || verbose || writeOut != nil }

  /// What makes a file of the body, if anything does; what is there and no file, such as `/dev/null`, is none then either.
  var optionOfFile: String? {
    if download { return "--download" }
    guard let output, output != "-" else { return nil }
    return FileSystem.isWrittenInPlace(output) ? nil : "--output"
  }

  func validate() throws {
    if continues, !download { throw ValidationError("--continue needs --download.") }
    if output == "" { throw ValidationError("--output names a file; an empty path names none.") }
    if download, output == "-" {
      throw ValidationError("--download makes a file, and - is standard output; leave one of them out.")
    }
    if include, body { throw ValidationError("--include and --body exclude each other.") }
    if !(0...1_000).contains(retry) { throw ValidationError("--retry is between 0 and 1000.") }
  }
}

/// Where to, how far, how long.
struct ConnectionOptions: ParsableArguments {
  @Flag(name: [.customShort("F"), .long], help: "Follow redirects.")
  var follow = false

  @Option(help: ArgumentHelp("Follow at most so many redirects (default 20).", valueName: "n"))
  var maxRedirects: Int?

  @Option(help: ArgumentHelp("Give up after so many seconds in all (fractions allowed).", valueName: "seconds"))
  var timeout: Double?

  @Option(
    help: ArgumentHelp(
      "Give up opening a connection when looking up, connecting, a proxy or TLS takes so many seconds, each by itself.",
      valueName: "seconds"))
  var connectTimeout: Double?

  @Option(
    help: ArgumentHelp("Connect to this address for a host and port (repeatable).", valueName: "host:port:address"))
  var resolve: [String] = []

  @Option(help: ArgumentHelp("Trust the certificates in this PEM file instead of the system's.", valueName: "file"))
  var cacert: String?

  @Option(
    help: ArgumentHelp("Trust only servers with this public key in their chain (repeatable).", valueName: "sha256/…"))
  var pin: [String] = []

  @Option(help: ArgumentHelp("Client certificate with its chain, PEM.", valueName: "file"))
  var cert: String?

  @Option(help: ArgumentHelp("Private key of --cert, PEM (default: the same file).", valueName: "file"))
  var key: String?

  @Option(
    help: ArgumentHelp(
      "A file whose first line is the passphrase of an encrypted key; - is standard input.", valueName: "file"))
  var keyPass: String?

  /// As `--auth` has it.
  var passphraseSource: String? { keyPass.map { $0.pathBehindAt == nil ? "@" + $0 : $0 } }

  @Flag(name: [.customShort("k"), .long], help: "Accept any certificate. Anybody on the path can read everything.")
  var insecure = false

  @Option(help: ArgumentHelp("Connect to a Unix-domain socket; \"@name\" is an abstract one.", valueName: "path"))
  var unixSocket: String?

  @Option(help: ArgumentHelp("Connect from this address of the machine.", valueName: "address"))
  var interface: String?

  @Flag(inversion: .prefixedNo, help: "Accept gzip and deflate, and decode them.")
  var compressed = true

  func validate() throws {
    if let maxRedirects, maxRedirects < 0 { throw ValidationError("--max-redirects is at least 0.") }
    if let timeout, !(timeout > 0 && timeout < 1e9) {
      throw ValidationError("--timeout is a number of seconds above 0 and below 1000000000.")
    }
    if let connectTimeout, !(connectTimeout > 0 && connectTimeout < 1e9) {
      throw ValidationError("--connect-timeout is a number of seconds above 0 and below 1000000000.")
    }
    if key != nil, cert == nil { throw ValidationError("--key needs --cert.") }
    if keyPass != nil, cert == nil { throw ValidationError("--key-pass needs --cert.") }
  }
}
