#include "model_maker/sample_text.h"

// With these lists the sample texts can be short: a word in a list becomes one token or a few.

namespace kvkeep::gguf {

std::string_view sample_words() {
  return R"text( able about above accept access according account across act action activity actually add addition address
 admit adult affect after again against age agency agent ago agree agreement ahead air all allow almost alone along
 already also although always among amount analysis and animal another answer any anyone anything appear apply
 approach area argue argument arm around arrive art article as ask assume at attack attempt attention author available
 avoid away baby back bad bag ball bank bar base be beat beautiful because become bed before begin behavior behind
 believe benefit best better between beyond big bill billion bit black blood blue board body book born both box boy break
 bring brother budget build building business but buy by call camera campaign can capital car card care career
 carry case catch cause cell center central century certain certainly chair challenge chance change character charge
 check child choice choose church citizen city claim class clear clearly close coach cold collection college color come
 commercial common community company compare computer concern condition conference consider contain continue control
 cost could country couple course court cover create crime culture cup current customer cut dark data daughter day dead
 deal death debate decade decide decision deep defense degree democratic describe design despite detail determine
 develop development die difference different difficult dinner direction director discover discuss discussion disease
 do doctor dog door down draw dream drive drop drug during each early east easy eat economic economy edge education
 effect effort eight either election else employee end energy enjoy enough enter entire environment environmental
 especially establish even evening event ever every everybody everyone everything evidence exactly example executive
 exist expect experience expert explain eye face fact factor fail fall family far fast father fear federal feel feeling
 few field fight figure fill film final finally financial find fine finger finish fire firm first fish five floor fly
 focus follow food foot for force foreign forget form former forward four free friend from front full fund future game
 garden gas general generation get girl give glass go goal good government great green ground group grow growth guess
 gun guy hair half hand hang happen happy hard have he head health hear heart heat heavy help her here herself high
 him himself his history hit hold home hope hospital hot hotel hour house how however huge human hundred husband idea
 identify if image imagine impact important improve in include including increase indeed indicate individual industry
 information inside instead institution interest interesting international interview into investment involve issue it
 item its itself job join just keep key kid kill kind kitchen know knowledge land language large last late later laugh
 law lawyer lay lead leader learn least leave left leg legal less let letter level lie life light like likely line list
 listen little live local long look lose loss lot love low machine magazine main maintain major majority make man manage
 management manager many market marriage material matter may maybe me mean measure media medical meet meeting member
 memory mention message method middle might military million mind minute miss mission model modern moment money month
 more morning most mother mouth move movement movie much music must my myself name nation national natural nature near
 nearly necessary need network never new news newspaper next nice night no none nor north not note nothing notice now
 number occur of off offer office officer official often oh oil ok old on once one only onto open operation opportunity
 option or order organization other others our out outside over own owner page pain painting paper parent part
 participant particular particularly partner party pass past patient pattern pay peace people per perform performance
 perhaps period person personal phone physical pick picture piece place plan plant play player point police policy
 political politics poor popular population position positive possible power practice prepare present president
 pressure pretty prevent price private probably problem process produce product production professional professor
 program project property protect prove provide public pull purpose push put quality question quickly quite race radio
 raise range rate rather reach read ready real reality realize really reason receive recent recently recognize record
 red reduce reflect region relate relationship religious remain remember remove report represent require research
 resource respond response responsibility rest result return reveal rich right rise risk road rock role room rule run
 safe same save say scene school science scientist score sea season seat second section security see seek seem sell
 send senior sense series serious serve service set seven several shake share she shoot short shot should shoulder show
 side sign significant similar simple simply since sing single sister sit site situation six size skill skin small
 smile so social society soldier some somebody someone something sometimes son song soon sort sound source south
 southern space speak special specific speech spend sport spring staff stage stand standard star start state statement
 station stay step still stock stop store story strategy street strong structure student study stuff style subject
 success successful such suddenly suffer suggest summer support sure surface system table take talk task tax teach
 teacher team technology television tell ten tend term test than thank that the their them themselves then theory there
 these they thing think third this those though thought thousand threat three through throughout throw thus time to
 today together tonight too top total tough toward town trade traditional training travel treat treatment tree trial
 trip trouble true truth try turn two type under understand unit until up upon us use usually value various very victim
 view violence visit voice vote wait walk wall want war was watch water way we weapon wear week weight well were west
 western what whatever when where whether which while white who whole whom whose why wide wife will win wind window wish
 with within without woman wonder word work worker world worry would write writer wrong yard yeah year yes yet you young
 your yourself added asked became began being called came changed closed coming computed created decided described
 doing done expected failed felt followed found gave getting given giving going gone got had has having held helped
 included increased keeping kept knew known learned led left looked looking lost made making means meant moved needed
 needs opened paid passed playing put reading received required returned running said saw saying seen sent shown
 someone speaking spent started stopped taken taking talking tells things thinking told took tried trying turned used
 uses using waited walked wanted wants went words worked working works writes writing written wrote years
 apple bird bridge bright butter cheese clean clock cloud coat coffee corner cream dress dust empty engine farm flower
 forest fresh fruit gold grass hill horse ice island king kiss knife lake leaf lion milk mirror moon mountain mouse
 narrow needle ocean orange paint path pen plane plate pocket queen quiet rain river roof round salt sand shade sharp
 ship shoe silver sky sleep slow smoke snow soap soft soup square steel stick stone storm straight sugar sun sweet
 thick thin tiny train valley warm wave wheel wild wine wing winter wood yellow
 abort allocate append application argument array assert async attribute backend batch binary boolean branch browser
 buffer build bug byte cache callback chunk class client code column command comment commit compile compiler component
 config configuration connect connection const constructor container content context counter crash cursor daemon
 database debug declare default define delete deploy device directory disk document domain download driver edit editor
 element enable encode endpoint entry enum error exception execute exit export expression extension factory feature
 fetch field file filter flag folder format frame framework frontend function global graph handle handler hash header
 heap hook host icon implementation import index init initialize inline input insert install instance instruction int
 integer interface internal invalid iterator kernel key layer layout length library license link linux load loader lock
 log logger logic login loop macro main map mask match matrix merge metadata migration mock module monitor mutex node
 null object offset operator optional output override package panic parameter parse parser password patch payload
 permission pipeline pixel plugin pointer pool port prefix print private process profile prompt protocol proxy pull
 query queue random read refactor reference regex register release remote render replace repository request reset
 resolve restart retry return rollback root route router runtime sample schema scope script search segment select
 sequence serialize server session shell signal size slice socket sort source spawn split stack state static status
 stderr stdin stdout stream string struct submit switch symbol sync syntax tag target task template temporary terminal
 test text thread throw timeout timestamp token trace tree trigger tuple type unicode update upload url user username
 utility validate variable vector version view virtual void warning widget wrapper write
 self.assertEqual self.name self.value this.state this.props std::vector std::string std::size_t std::move std::optional
 std::uint32_t std::uint64_t std::int64_t nullptr const auto& static_cast<int> static_cast<std::size_t> constexpr
 noexcept override public: private: protected: template <typename T> return false; return true; return nullptr; return 0;
 break; continue; else if (!ok) while (true) for (size_t i = 0; i < n; i++) for (int i = 0; i < n; ++i) switch (kind) case
 def __init__(self): return None if not isinstance(value, str): raise ValueError("expected") print(f"{name}") import numpy
 as np np.array pd.DataFrame lambda x: x, key=lambda try: except Exception as e: finally: with open( .append( .items()
 .join( .split( .strip() .format( .get( .keys() .values() .lower() .replace( .startswith( .endswith( .read() .close()
 const result = await let index = 0; function (err, data) { console.log( module.exports = require(" document.getElementById
 .length .push( .map((x) => .filter( .reduce( .then( .catch( JSON.stringify( Object.keys( Array.isArray( Promise.all(
 undefined => { }); }, }) === !== && || ++ -- += -= << >> :: -> // /* */ /** */ """ ''' ``` --- *** ### ...
 "type": "string", "object", "number", "array", "name": "value": "id": "description": "content": "role": "user",
 "assistant", "tool", "path": "items": {" "required": [" "error": "message": "code": "status": "ok", true, false, null,
)text";
}

}  // namespace kvkeep::gguf
