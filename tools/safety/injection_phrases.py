"""Phrases, in several languages, with which a tool's description instructs the model.

Pure data, matched against lower-case text with single blanks. Each needs two or three words that only occur
together in an instruction, since honest descriptions also say "ignores case" or "call this first".
Compiled on first use.
"""

import re
from functools import cache

_EARLIER = r"(?:previous|prior|above|earlier|preceding|former|other|all|any|your|safety)"
_SOME = r"(?:the|these|those|every|of|its|such)"
_ORDERS = (
    r"(?:instructions?|prompts?|guidelines|directives|guardrails|restrictions|system messages?|safety rules)"
)
_PERSON = r"(?:the |your |any )?(?:users?|humans?|person|people|anyone|anybody|customers?|operator|admins?)"
_TALK = (
    r"(?:conversation|chat history|chat log|previous messages?"
    r"|earlier messages?|message history|system prompt)"
)
_TOOLS = r"(?:this|the) (?:tool|function)"
# Built-in tools whose names are no ordinary words, as `schedule` is.
_OWN_TOOLS = r"(?:fetch_page|look_back|read_more|find_tools|use_tool)"

_IGNORE_INSTRUCTIONS = (
    rf"\b(?:ignore|disregard|forget|override|bypass)"
    rf"(?: {_SOME})* {_EARLIER}(?: {_SOME}| {_EARLIER})* {_ORDERS}\b",
    r"\b(?:ignore|disregard|forget) (?:the|these|those) (?:instructions|system messages?)\b",
    r"\b(?:ignore|disregard|forget) (?:everything|anything|all) "
    r"(?:above|before|you (?:were|have been) told)\b",
    r"\b(?:ignorier\w*|vergiss|vergesst|missachte\w*|übergeh\w*) (?:\w+ ){0,3}"
    r"(?:anweisung|instruktion|vorgabe|regel)\w*",
    r"\b(?:ignore[rzs]?|oublie[rzs]?) (?:\w+ ){0,3}(?:instructions|consignes|directives)\b",
    r"\b(?:ignor[ae]n?|olvid[ae]n?|desestim[ae]) (?:\w+ ){0,3}(?:instrucciones|indicaciones|órdenes)\b",
    r"\b(?:ignor[ae]|dimentica|trascura) (?:\w+ ){0,3}(?:istruzioni|indicazioni)\b",
    r"\b(?:ignore|esqueç[ao]|desconsidere) (?:\w+ ){0,3}(?:instruções|orientações)\b",
    r"\b(?:игнорируй|игнорируйте|забудь|забудьте) (?:\w+ ){0,3}(?:инструкци|указани|правил)\w*",
    r"\b(?:yoksay|görmezden gel)\b.{0,40}\btalimat|\btalimat\w*.{0,20}(?:yoksay|görmezden gel)",
    r"(?:忽略|无视|忘记|無視|忘れ).{0,12}(?:指令|指示|提示|说明|規則|规则)|(?:指示|命令).{0,6}(?:無視|忘れ)",
    r"(?:تجاهل|انس).{0,20}(?:التعليمات|الأوامر)",
)
_SECRECY = (
    rf"\b(?:do not|don't|never|must not|should not|shouldn't) (?:ever )?"
    rf"(?:tell|warn|(?:mention|reveal|show) (?:this|it|that) to) {_PERSON}\b",
    rf"\b(?:do not|don't|never) (?:inform|notify|alert) {_PERSON} "
    rf"(?:about|of|that) (?:this|it|you|the (?:call|use))\b",
    rf"\b(?:hide|conceal) (?:this|it|that|the call|the result) from {_PERSON}\b",
    rf"\bwithout (?:telling|asking|the knowledge of) {_PERSON}\b",
    r"\b(?:do not|don't|never) (?:mention|reveal|disclose) (?:this|these|that you|the fact that)\b",
    rf"\b{_PERSON} (?:has|have) (?:already |all )?"
    r"(?:consented|agreed|approved|given (?:\w+ )?(?:consent|permission))"
    r"\b.{0,40}\b(?:(?:never|don't|do not|not) (?:\w+ )?ask|no need to ask|without asking)\b",
    r"\b(?:sag|sage|erzähl\w*|verrate) (?:\w+ ){0,3}(?:nutzer|benutzer|anwender)\w* (?:nichts|nicht)\b",
    r"\bohne (?:den |die |dem )?(?:nutzer|benutzer|anwender)\w* (?:zu )?(?:fragen|informieren)\b",
    r"\bne (?:dis|dites|révèle[sz]?|mentionne[sz]?|préviens|prévenez) (?:\w+ ){0,4}l'utilisateur\b",
    r"\bno (?:le )?(?:digas|diga|informes|informe|menciones|reveles) (?:\w+ ){0,4}(?:al )?usuario\b",
    r"\bnon (?:dire|dirlo|informare|rivelare|menzionare) (?:\w+ ){0,4}(?:all')?utente\b"
    r"|\bnon .{0,20}all'utente\b",
    r"\bnão (?:diga|conte|informe|revele|mencione) (?:\w+ ){0,4}usuário\b",
    r"\bне (?:говори|говорите|сообщай|сообщайте|рассказывай\w*) (?:\w+ ){0,3}пользовател\w*",
    r"(?:不要|别|勿|切勿).{0,4}(?:告诉|告知|通知|透露).{0,4}用户|(?:ユーザー|利用者)に.{0,10}(?:言わない|伝えない|知らせない)",
    r"لا تخبر المستخدم",
)
_TOOL_CALL_ORDERS = (
    rf"\b(?:always|must|first) (?:\w+ )?(?:call|use|run|invoke|execute) {_TOOLS} "
    r"(?:first|before|whenever|every|for every|for all|no matter|regardless)\b",
    rf"\byou (?:must|should|have to|need to|are required to) "
    rf"(?:always |first |also )*(?:call|use|run|invoke|execute) {_TOOLS}\b",
    r"(?:^|[.;:!?] )(?:before|after|prior to) (?:you )?(?:answer|reply|respond)(?:ing)?\b",
    r"\bbefore (?:answering|replying to|responding to) "
    r"(?:the |any |a |every )?(?:users?|questions?|person)\b",
    r"\bbefore (?:each|every) (?:answer|reply|response)\b",
    r"\b(?:before|after) (?:using|calling|running|invoking) (?:any|every|each|all)(?: other)? tools?\b",
    r"\b(?:do not|don't|never) (?:use|call|invoke|trust) (?:any )?(?:of the )?other tools?\b",
    r"\bthis (?:tool|function) (?:supersedes|replaces|overrides) (?:all|any|every|the other|other)\b",
    rf"\b(?:supersedes|replaces|overrides|instead of|rather than) (?:the )?[`'\"]?{_OWN_TOOLS}\b",
    rf"\b(?:do not|don't|never) (?:use|call|invoke|trust) (?:the )?[`'\"]?{_OWN_TOOLS}\b",
    r"\b(?:then|also|next|first|must|always) (?:call|use|run|invoke) (?:the )?[`'\"]?\w+[`'\"]? tool "
    r"(?:with|to send|and (?:send|pass))\b",
    r"\b(?:immer|zuerst|stets) dieses werkzeug\b|\bbevor du (?:\w+ ){0,2}antwort\w*|\bvor jeder antwort\b",
    r"\bavant de répondre\b|\bavant chaque réponse\b|\butilise[rz]? toujours cet outil\b",
    r"\bantes de responder\b|\bantes de cada respuesta\b"
    r"|\b(?:usa|utiliza|llama) siempre (?:a )?esta herramienta\b",
    r"\bprima di rispondere\b|\busa sempre questo strumento\b|\buse sempre esta ferramenta\b",
    r"\bперед (?:каждым )?ответом\b|\bпрежде чем отвечать\b"
    r"|\bвсегда (?:вызывай|используй)\w* этот инструмент\b",
    r"(?:回答|答复|回复)(?:用户)?之前.{0,10}(?:调用|使用)|(?:总是|始终|务必|必须)(?:先)?(?:调用|使用)(?:此|这个|本)工具|回答する前に",
)
_IMPERSONATION = (
    r"\bsystem[ _-]?prompts?\b|\b(?:hidden|secret|developer|internal) (?:prompt|instructions?)\b",
    r"[\[<](?:important|system|critical|urgent|override)[ _-]?"
    r"(?:instructions?|notice|message|override)?[\]>]",
    r"\[/?inst\]|<<sys>>|\bimportant instructions?\b",
    r"(?:^|[.;:!?\n\]] ?)(?:system|assistant|developer|user) ?: ?"
    r"(?:you|ignore|always|now|i |please|do |call\b|the user)",
    r"\[ ?end of (?:the )?data ?\]|\[ ?data: ",
    r"\byou are (?:now |no longer )?(?:an? |the )?(?:\w+ )?"
    r"(?:assistant|ai\b|language model|chatbot|llm|agent|dan\b)",
    r"\b(?:as|dear) (?:an? )?(?:ai|language model|llm)"
    r"(?: (?:assistant|model|agent))?,? (?:you|please|always|must)\b",
    r"\b(?:enable|enter|activate) (?:developer|debug|jailbreak|god|admin|unrestricted) mode\b|\bjailbreak\b",
    r"\bsystemprompt\b|\bsystem-anweisung\w*|\binvite système\b"
    r"|\bprompt (?:del )?sistema\b|\bpromptul? de sistem\b",
    r"\bсистемн\w* (?:промпт|подсказк|инструкци)\w*|系统提示|系統提示|システムプロンプト",
)
_EXFILTRATION = (
    rf"\b(?:send|include|pass|copy|forward|append|put|upload|attach|post|paste|summari[sz]e|repeat) "
    rf"(?:\w+ ){{0,4}}"
    rf"(?:whole |entire |full |complete |current )?{_TALK}\b",
    rf"\b(?:contents?|text|all) of (?:the |this |your |our )?(?:whole |entire |full )?{_TALK}\b",
    r"\b(?:read|open|send|include|pass) (?:\w+ ){0,4}"
    r"(?:~/|/etc/|\.ssh\b|id_rsa|\.env\b|mcp\.json|environment variables)",
    r"\b(?:all|every|each) (?:\w+ )?(?:e-?mails?|messages?|notes?|answers?|replies|results?|conversations?)"
    r" (?:must|should|has to|have to|needs? to) (?:always |also |first )*be (?:\w+ )?"
    r"(?:sent|forwarded|copied|posted|bcc'?d) to\b",
    r"\b(?:user's|person's|their|your) (?:own )?(?:passwords?|api keys?|private keys?|credentials|notes and)"
    r" (?:to|into|as|in) (?:this|the|that)\b",
)


@cache
def compile_injection_patterns() -> tuple[tuple[str, re.Pattern[str]], ...]:
    """Pairs of what a kind of phrase does and the pattern that finds it."""
    kinds = {
        "asks to set instructions aside": _IGNORE_INSTRUCTIONS,
        "asks to keep something from people": _SECRECY,
        "orders the model about": _TOOL_CALL_ORDERS,
        "poses as instructions of the bot": _IMPERSONATION,
        "asks for more than it needs": _EXFILTRATION,
    }
    return tuple(
        (effect, re.compile("|".join(f"(?:{each})" for each in patterns)))
        for effect, patterns in kinds.items()
    )
